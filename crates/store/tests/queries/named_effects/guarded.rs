//! What no report, no late begin and no time may do to a named effect.

use anyhow::{Context, Result, bail};
use semel_model::storable::indexed;
use semel_model::{NamedEffectState, Span};
use semel_store::named_effects::{
    self, NamedBegun, NamedReport, NamedResult, NamedSettlement, Reporter,
};
use serde_json::json;

use super::{NAMESPACE, Name, WINDOW, asking, caller, done, run, script};
use crate::world::World;

#[tokio::test]
async fn a_process_that_learns_the_token_of_a_run_can_report_nothing_under_it() -> Result<()> {
    let world = World::start().await?;
    let name = Name::new(&world, "charge:o-1")?;
    let token = name.first(run(1), "a").await?.token;
    let by = Reporter::Script(caller());
    let (stolen, fault) = (name.hold(token, by), json!({ "code": "no" }));
    let own = name.hold(token, Reporter::Run);

    for state in [NamedEffectState::Pending, NamedEffectState::InDoubt] {
        let reports = [
            named_effects::done(name.cell(), stolen, &done("x")).await?,
            named_effects::fail(name.cell(), stolen, &fault).await?,
            named_effects::free(name.cell(), stolen).await?,
            named_effects::doubt(name.cell(), stolen, &fault).await?,
        ];
        let late = |it: &NamedReport| matches!(it, NamedReport::Late(_));
        assert!(reports.iter().all(late), "{reports:?}");
        let view = named_effects::find(name.cell(), NAMESPACE, name.id).await?;
        let view = view.context("a view")?;
        assert_eq!((view.state, view.note), (state, None));
        named_effects::doubt(name.cell(), own, &fault).await?;
    }
    named_effects::done(name.cell(), own, &done("x")).await?;
    let repeat = named_effects::done(name.cell(), stolen, &done("x")).await?;

    assert!(matches!(repeat, NamedReport::Late(_)), "{repeat:?}");
    Ok(())
}

#[tokio::test]
async fn an_external_id_that_no_column_takes_is_recorded_and_its_report_repeated() -> Result<()> {
    let world = World::start().await?;
    let named = |id: &str| NamedResult {
        result: Some(json!({ "id": id })),
        external_id: Some(id.to_owned()),
    };
    let long = "ch_1".repeat(1_000);
    let cases = [
        ("run", "ch_1\0", indexed("ch_1\0")),
        ("long", long.as_str(), long.as_str().into()),
    ];
    for (key, id, stored) in cases {
        let name = Name::new(&world, key)?;
        let own = name.hold(name.first(run(1), "a").await?.token, Reporter::Run);

        let first = named_effects::done(name.cell(), own, &named(id)).await?;
        let again = named_effects::done(name.cell(), own, &named(id)).await?;

        assert!(matches!(first, NamedReport::Recorded(_)), "{first:?}");
        assert!(matches!(again, NamedReport::Repeated(_)), "{again:?}");
        let view = named_effects::find(name.cell(), NAMESPACE, name.id).await?;
        let view = view.context("a view")?;
        assert_eq!(view.external_id.as_deref(), Some(&*stored));
        assert_eq!(view.result, named(id).result, "its result is whole");
    }
    // An operator who settles a doubt is told the same.
    let name = Name::new(&world, "settled")?;
    let token = name.first(run(1), "a").await?.token;
    let own = name.hold(token, Reporter::Run);
    named_effects::doubt(name.cell(), own, &json!({ "code": "lost" })).await?;
    for _ in 0..2 {
        let happened = NamedSettlement::Happened(named("ch_1\0"));
        let report = name.settle(token, happened).await?;
        let is_said = matches!(report, NamedReport::Recorded(_) | NamedReport::Repeated(_));
        assert!(is_said, "{report:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_hold_that_began_in_doubt_is_in_doubt_again_when_it_is_freed() -> Result<()> {
    let world = World::start().await?;
    let name = Name::new(&world, "charge:o-1")?;
    let token = name.first(run(1), "a").await?.token;
    let (own, fault) = (name.hold(token, Reporter::Run), json!({ "code": "lost" }));
    named_effects::doubt(name.cell(), own, &fault).await?;

    // A worker that was paused begins, twice, and the repair frees its hold; then a run frees one.
    for by_repair in [true, false] {
        assert_eq!(name.first(run(1), "a").await?.token, token);
        assert_eq!(name.first(run(1), "a").await?.token, token);
        name.pass(61).await?;
        let holds = named_effects::list_old_holds(world.cell.every(), None).await?;
        let freed = match by_repair {
            true => named_effects::free_old_hold(name.cell(), &holds[0]).await?,
            false => named_effects::free(name.cell(), own).await?,
        };
        assert!(matches!(freed, NamedReport::Recorded(_)), "{freed:?}");
        let view = named_effects::find(name.cell(), NAMESPACE, name.id).await?;
        let view = view.context("a view")?;
        assert_eq!(view.state, NamedEffectState::InDoubt);
        assert_eq!(view.fault, Some(fault.clone()), "why it is in doubt");
        let other = name.begin(run(2), "a").await?;
        assert!(matches!(other, NamedBegun::InDoubt(_)), "{other:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_begin_that_comes_after_its_own_failure_begins_nothing() -> Result<()> {
    let world = World::start().await?;
    let name = Name::new(&world, "charge:o-1")?;
    let hold = name.first(script(1), "a").await?;
    name.fail(hold.token).await?;

    let late = name.begin(script(1), "a").await?;

    assert!(matches!(late, NamedBegun::Over(_)), "{late:?}");
    assert_eq!(name.state().await?, Some(NamedEffectState::Failed));
    let next = name.first(script(2), "a").await?;
    name.fail(next.token).await?;
    let run_again = name.first(run(7), "a").await?;
    name.fail(run_again.token).await?;
    let resumed = name.first(run(7), "a").await?;
    assert!(resumed.token > run_again.token, "a run may be resumed");
    Ok(())
}

#[tokio::test]
async fn a_generation_is_never_used_twice_and_what_was_never_used_is_removed() -> Result<()> {
    let world = World::start().await?;
    let (used, freed) = (Name::new(&world, "used")?, Name::new(&world, "freed")?);
    let hold = used.first(script(1), "a").await?;
    used.done(hold.token, "x").await?;
    let free = freed.first(run(1), "a").await?;
    let own = freed.hold(free.token, Reporter::Run);
    named_effects::free(freed.cell(), own).await?;
    used.pass(36_001).await?;
    for _ in 0..2 {
        named_effects::expire(world.cell.every(), WINDOW).await?;
        used.pass(31 * 86_400).await?;
    }
    let client = world.connect().await?;
    let rows = client.query("SELECT id FROM named_effects", &[]).await?;
    let kept: Vec<uuid::Uuid> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(kept, [*used.id.as_uuid()]);

    let (next, first) = (
        used.first(script(2), "a").await?,
        freed.first(run(2), "a").await?,
    );

    assert_eq!((next.generation, first.generation), (1, 0));
    assert!(next.token > hold.token && first.token > free.token);
    assert!(matches!(
        used.done(hold.token, "late").await?,
        NamedReport::Late(_)
    ));
    Ok(())
}

#[tokio::test]
async fn a_generation_is_forgotten_when_no_destination_remembers_its_key() -> Result<()> {
    let world = World::start().await?;
    let (http, db) = (Name::new(&world, "http")?, Name::new(&world, "db")?);
    for (name, kind) in [(&http, "http"), (&db, "db")] {
        let mut asked = asking(name.key, run(1), "a")?;
        asked.action.kind = kind.to_owned();
        asked.endless = kind == "db";
        let NamedBegun::First(hold) = named_effects::begin(name.cell(), &asked).await? else {
            bail!("not first");
        };
        name.done(hold.token, "x").await?;
    }
    let client = world.connect().await?;
    let left = async || -> Result<i64> {
        let count = "SELECT count(*) FROM named_effects";
        Ok(client.query_one(count, &[]).await?.get(0))
    };
    let (day, longer) = (86_400, Span::from_secs(400 * 86_400));

    // The effects are forgotten, and later their generations.
    http.pass(36_001).await?;
    named_effects::expire(world.cell.every(), WINDOW).await?;
    http.pass(365 * day).await?;
    named_effects::expire(world.cell.every(), WINDOW).await?;
    let within_a_year = left().await?;
    http.pass(2 * day).await?;
    named_effects::expire(world.cell.every(), longer).await?;
    let within_the_longest = left().await?;
    named_effects::expire(world.cell.every(), WINDOW).await?;

    assert_eq!((within_a_year, within_the_longest), (2, 2));
    assert_eq!(left().await?, 1, "a marker has no end");
    assert_eq!(http.first(run(2), "a").await?.generation, 0);
    assert_eq!(db.first(run(2), "a").await?.generation, 1);
    Ok(())
}
