//! Reconcile passes: one for each instant, held by one server, recorded page by page.

use anyhow::{Context, Result};
use jiff::Timestamp;
use semel_model::{ScheduleId, Span};
use semel_store::audit::AuditEntry;
use semel_store::clock;
use semel_store::reconcile_passes::{
    self as passes, ComparedPage, ItemVerdict, NewPass, PassCounts, ReconcileItem, ReconcilePass,
};
use semel_store::turns::NamespaceTurns;
use std::time::Duration;

use crate::world::World;

const LEASE: Span = Span::from_const_secs(600);

fn pass_at(nominal: &str) -> Result<NewPass> {
    let nominal: Timestamp = nominal.parse()?;
    Ok(NewPass {
        id: ScheduleId::derive(&"default".parse()?, &"orders".parse()?),
        nominal,
        namespace_id: 1,
        flow: "orders".to_owned(),
        release_id: 1,
        window_start: nominal - Duration::from_secs(3_600),
        dry_run: false,
        asked_by: None,
    })
}

async fn take(world: &World) -> Result<Option<ReconcilePass>> {
    let turns = &mut NamespaceTurns::default();
    Ok(passes::take(world.cell.every(), turns, &[], LEASE).await?)
}

fn page(next: Option<&str>) -> ComparedPage {
    ComparedPage {
        counts: PassCounts {
            listed: 3,
            known: 1,
            started: 1,
            unreadable: 1,
            ..PassCounts::default()
        },
        items: vec![ReconcileItem {
            index: 2,
            verdict: ItemVerdict::Unreadable,
            key: None,
            run: None,
            note: Some("the key is null".to_owned()),
        }],
        next: next.map(str::to_owned),
    }
}

#[tokio::test]
async fn an_instant_has_one_pass_and_one_server_holds_it() -> Result<()> {
    let world = World::start().await?;
    let new = pass_at("2026-01-01T01:00:00Z")?;
    let cell = world.cell.of(new.id);

    let opened = passes::open(cell, &new, None).await?;
    let again = passes::open(cell, &new, None).await?;
    let taken = take(&world).await?;
    let other = take(&world).await?;
    clock::move_ahead(&world.cell, Duration::from_secs(601)).await?;
    let later = take(&world).await?;

    assert_eq!((opened, again), (true, false));
    assert_eq!(taken.context("a pass")?.epoch, 1);
    assert!(other.is_none(), "it is held");
    assert_eq!(later.context("the pass")?.epoch, 2);
    assert_eq!(
        passes::find_latest(cell, new.id).await?,
        Some(new.nominal),
        "the recurrence is decided up to here"
    );
    Ok(())
}

#[tokio::test]
async fn a_page_is_recorded_once_by_the_server_that_took_it_last() -> Result<()> {
    let world = World::start().await?;
    let new = pass_at("2026-01-01T01:00:00Z")?;
    let cell = world.cell.of(new.id);
    passes::open(cell, &new, None).await?;
    let late = take(&world).await?;
    let late = late.context("a pass")?;
    clock::move_ahead(&world.cell, Duration::from_secs(601)).await?;
    let pass = take(&world).await?;
    let mut pass = pass.context("the pass")?;

    let next = Some("https://shop.example/2");
    assert!(!passes::hold(cell, &late, LEASE).await?);
    assert!(!passes::record(cell, &late, &page(next), LEASE).await?);
    assert!(!passes::postpone(cell, &late, "busy", Some(LEASE)).await?);
    assert!(passes::record(cell, &pass, &page(next), LEASE).await?);
    assert!(!passes::record(cell, &pass, &page(next), LEASE).await?);
    pass.page = 1;
    assert!(passes::hold(cell, &pass, LEASE).await?);
    assert!(passes::record(cell, &pass, &page(None), LEASE).await?);
    assert!(!passes::postpone(cell, &pass, "busy", None).await?);

    let found = passes::find(cell, 1, (new.id, new.nominal)).await?;
    let found = found.context("the pass")?;
    assert_eq!((found.state.as_str(), found.page), ("done", 2));
    assert_eq!((found.counts.listed, found.counts.started), (6, 2));
    let items = passes::list_items(cell, (new.id, new.nominal), 10).await?;
    assert_eq!(items.len(), 2);
    assert!(
        passes::find(cell, 2, (new.id, new.nominal))
            .await?
            .is_none()
    );
    Ok(())
}

#[tokio::test]
async fn a_pass_keeps_two_thousand_items_and_counts_all() -> Result<()> {
    let world = World::start().await?;
    let new = pass_at("2026-01-01T01:00:00Z")?;
    let cell = world.cell.of(new.id);
    passes::open(cell, &new, None).await?;
    let pass = take(&world).await?;
    let mut pass = pass.context("a pass")?;
    let item = |index| ReconcileItem {
        index,
        ..page(None).items.remove(0)
    };

    for next in ["https://shop.example/2", "https://shop.example/3"] {
        let compared = ComparedPage {
            items: (0..1_500).map(item).collect(),
            ..page(Some(next))
        };
        assert!(passes::record(cell, &pass, &compared, LEASE).await?);
        pass.advance(&compared);
    }

    let items = passes::list_items(cell, (new.id, new.nominal), 5_000).await?;
    assert_eq!(items.len(), 2_000);
    let found = passes::find(cell, 1, (new.id, new.nominal)).await?;
    let found = found.context("the pass")?;
    let met = |pass: &passes::ReconcilePass| (pass.page, pass.marked_page.clone());
    assert_eq!(met(&found), met(&pass), "the row and its copy agree");
    Ok(())
}

#[tokio::test]
async fn a_pass_that_is_given_back_stands_behind_others_and_is_alone_of_its_recurrence()
-> Result<()> {
    let world = World::start().await?;
    let (first, second) = (
        pass_at("2026-01-01T01:00:00Z")?,
        pass_at("2026-01-01T02:00:00Z")?,
    );
    let asked = NewPass {
        asked_by: Some("token:ada".to_owned()),
        ..second.clone()
    };
    let cell = world.cell.of(first.id);
    assert!(passes::open(cell, &first, None).await?);
    assert!(!passes::open(cell, &second, None).await?, "one is open");
    assert!(passes::open(cell, &asked, None).await?, "an operator asks");

    let taken = take(&world).await?;
    let taken = taken.context("a pass")?;
    passes::give_back(cell, &taken).await?;
    let next = take(&world).await?;
    let again = take(&world).await?;
    let (next, again) = (next.context("a pass")?, again.context("a pass")?);
    passes::give_back(cell, &taken).await?;
    let late = take(&world).await?;

    assert_eq!(taken.new.nominal, first.nominal);
    assert_eq!(next.new.nominal, asked.nominal, "it was due for longer");
    assert_eq!((again.new.nominal, again.epoch), (first.nominal, 2));
    assert!(late.is_none(), "a late server gives nothing back");
    Ok(())
}

#[tokio::test]
async fn a_flow_has_one_open_pass_that_was_asked_for_and_one_that_is_a_dry_run() -> Result<()> {
    let world = World::start().await?;
    let asked = |nominal, dry_run| -> Result<NewPass> {
        Ok(NewPass {
            asked_by: Some("token:ada".to_owned()),
            dry_run,
            ..pass_at(nominal)?
        })
    };
    let first = asked("2026-01-01T01:00:00Z", false)?;
    let second = asked("2026-01-01T02:00:00Z", false)?;
    let dry = asked("2026-01-01T03:00:00Z", true)?;
    let cell = world.cell.of(first.id);
    let act = AuditEntry::new(1, "token:ada", "reconcile.run", "orders");

    let opened = passes::open(cell, &first, Some(&act)).await?;
    let again = passes::open(cell, &second, Some(&act)).await?;
    let dry_too = passes::open(cell, &dry, Some(&act)).await?;
    let open = passes::find_open_asked(cell, 1, first.id, false).await?;
    let elsewhere = passes::find_open_asked(cell, 2, first.id, false).await?;
    let taken = take(&world).await?.context("a pass")?;
    assert!(passes::postpone(cell, &taken, "http-403: no", None).await?);
    let after = passes::open(cell, &second, Some(&act)).await?;

    assert_eq!((opened, again, dry_too), (true, false, true));
    assert_eq!(open.context("the open one")?.new.nominal, first.nominal);
    assert!(elsewhere.is_none());
    assert_eq!(taken.new.nominal, first.nominal);
    assert!(after, "the first has ended");
    Ok(())
}

#[tokio::test]
async fn a_pass_that_is_given_up_is_taken_no_more_and_the_latest_is_kept() -> Result<()> {
    let world = World::start().await?;
    let (old, new) = (
        pass_at("2026-01-01T01:00:00Z")?,
        pass_at("2026-01-01T02:00:00Z")?,
    );
    let cell = world.cell.of(old.id);
    let act = AuditEntry::new(1, "token:ada", "reconcile.run", "orders");
    for one in [&old, &new] {
        passes::open(cell, one, Some(&act)).await?;
        let pass = take(&world).await?;
        let pass = pass.context("a pass")?;
        assert!(passes::postpone(cell, &pass, "http-403: no", None).await?);
    }
    let taken = take(&world).await?;
    clock::move_ahead(&world.cell, Duration::from_secs(10)).await?;

    let forgotten = passes::forget(world.cell.every(), Span::from_secs(5)).await?;
    let left = passes::list(cell, 1, old.id, 10).await?;

    assert!(taken.is_none());
    assert_eq!(forgotten, 1);
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].new.nominal, new.nominal);
    assert_eq!(left[0].state, "failed");
    Ok(())
}
