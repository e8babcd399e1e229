//! Runs that wait behind a named effect, and named effects as lists show them.

use anyhow::{Result, bail};
use semel_model::{EffectScope, NamedEffectState, RunId, SessionId};
use semel_store::claims;
use semel_store::named_effects::{
    self, NamedBegun, NamedEffectFilter, NamedHolder, NamedReport, NamedResult, Reporter,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{NAMESPACE, Name, caller, run, script};
use crate::world::{World, delivery};

#[tokio::test]
async fn runs_wait_behind_a_holder_and_none_is_left_behind() -> Result<()> {
    let world = World::start().await?;
    let name = Name::new(&world, "charge:o-1")?;
    let hold = name.first(run(1), "a").await?;
    assert!(matches!(
        name.begin(run(2), "a").await?,
        NamedBegun::Held(_)
    ));
    let own = name.hold(hold.token, Reporter::Run);
    let doubted = named_effects::doubt(name.cell(), own, &json!({})).await?;
    assert!(matches!(doubted, NamedReport::Recorded(_)));
    assert!(matches!(
        name.begin(run(3), "a").await?,
        NamedBegun::InDoubt(_)
    ));
    // A run settles its own doubt, and begins again if it may.
    assert_eq!(name.first(run(1), "a").await?.token, hold.token);

    let failed = name.fail(hold.token).await?;
    let NamedReport::Recorded(waiters) = failed else {
        bail!("{failed:?}");
    };
    assert_eq!(waiters.len(), 2);
    let (left, _) = named_effects::list_left_behind(world.cell.every(), None).await?;
    assert_eq!(
        left.len(),
        2,
        "a server that dies now leaves them to the repair"
    );
    let next = name.first(run(2), "a").await?;
    assert_eq!(next.key, hold.key, "nothing happened");
    assert!(matches!(
        name.begin(run(3), "a").await?,
        NamedBegun::Held(_)
    ));
    named_effects::woken(name.cell(), name.id, &waiters).await?;

    let NamedReport::Recorded(waiters) = name.done(next.token, "x").await? else {
        bail!("not recorded");
    };
    let runs: Vec<RunId> = waiters.iter().map(|it| it.run).collect();
    assert_eq!(
        runs,
        [RunId::from_uuid(Uuid::from_u128(3))],
        "it waits again"
    );
    Ok(())
}

#[tokio::test]
async fn lists_show_what_is_there_page_by_page() -> Result<()> {
    let world = World::start().await?;
    for index in 0..5_u128 {
        let key = format!("k-{index}");
        let name = Name::new(&world, &key)?;
        let hold = name.first(script(index + 1), "a").await?;
        if index > 2 {
            name.done(hold.token, "x").await?;
        }
    }
    let every = world.cell.every();
    let all = NamedEffectFilter::default();

    let first = named_effects::list(every, NAMESPACE, &all, None, 3).await?;
    let second = named_effects::list(every, NAMESPACE, &all, first.next, 3).await?;

    let keys = |views: &[named_effects::NamedEffectView]| -> Vec<String> {
        views.iter().map(|view| view.name.key().text()).collect()
    };
    assert_eq!(keys(&first.items), ["k-4", "k-3", "k-2"]);
    assert_eq!(keys(&second.items), ["k-1", "k-0"]);
    assert!(second.next.is_none(), "{:?}", second.next);
    let of_state = NamedEffectFilter {
        state: Some(NamedEffectState::Done),
        scope: Some(EffectScope::Shared),
    };
    let done = named_effects::list(every, NAMESPACE, &of_state, None, 9).await?;
    assert_eq!(keys(&done.items), ["k-4", "k-3"]);
    assert!(done.items.iter().all(|view| view.result.is_none()));
    let of_state = NamedEffectFilter {
        state: Some(NamedEffectState::Pending),
        scope: None,
    };
    let open = named_effects::list(every, NAMESPACE, &of_state, None, 9).await?;
    assert_eq!(keys(&open.items), ["k-2", "k-1", "k-0"]);
    assert!(
        named_effects::list(every, 2, &all, None, 9)
            .await?
            .items
            .is_empty()
    );
    Ok(())
}

#[tokio::test]
async fn a_result_of_any_shape_comes_back() -> Result<()> {
    let world = World::start().await?;
    let name = Name::new(&world, "charge:o-1")?;
    let hold = name.first(script(1), "a").await?;
    let result: Value = json!({ "stdout": "a\u{0}b", "exit": 0 });
    let happened = NamedResult {
        result: Some(result.clone()),
        external_id: None,
    };
    for _ in 0..2 {
        let own = name.hold(hold.token, Reporter::Script(caller()));
        named_effects::done(name.cell(), own, &happened).await?;
    }
    let found = named_effects::find(name.cell(), NAMESPACE, name.id).await?;
    assert_eq!(found.and_then(|view| view.result), Some(result));
    Ok(())
}

#[tokio::test]
async fn a_run_in_a_workers_hands_is_woken_later() -> Result<()> {
    let world = World::start().await?;
    let name = Name::new(&world, "charge:o-1")?;
    let accepting = claims::start_accepting(&world.cell);
    let asleep = accepting.write(delivery("asleep", "{}", None)?).await?.run;
    let session = Some(SessionId::generate());
    let held = accepting.write(delivery("held", "{}", session)?).await?.run;
    let hold = name.first(script(1), "a").await?;
    for waiting in [asleep, held] {
        let holder = NamedHolder::Run {
            run: waiting,
            step: "charge".to_owned(),
            item: String::new(),
            generation: 0,
        };
        assert!(matches!(
            name.begin(holder, "a").await?,
            NamedBegun::Held(_)
        ));
    }
    let NamedReport::Recorded(waiters) = name.done(hold.token, "x").await? else {
        bail!("not recorded");
    };

    let (awake, busy) = named_effects::wake(world.cell.every(), waiters).await?;
    named_effects::woken(name.cell(), name.id, &awake).await?;
    named_effects::put_back(name.cell(), name.id, &busy).await?;

    let runs = |waiters: &[named_effects::NamedEffectWaiter]| -> Vec<RunId> {
        waiters.iter().map(|it| it.run).collect()
    };
    assert_eq!(runs(&awake), [asleep]);
    let (left, _) = named_effects::list_left_behind(world.cell.every(), None).await?;
    assert_eq!(runs(&left), [held]);
    assert!(left[0].since > busy[0].since, "it goes behind the others");
    Ok(())
}

#[tokio::test]
async fn a_free_name_wakes_its_oldest_waiters_and_a_done_one_all_and_none_is_stranded() -> Result<()>
{
    let world = World::start().await?;
    let name = Name::new(&world, "charge:o-1")?;
    let hold = name.first(script(1), "a").await?;
    for number in 10..30 {
        name.begin(run(number), "a").await?;
    }
    let number = |waiter: &named_effects::NamedEffectWaiter| waiter.run.as_uuid().as_u128();

    let NamedReport::Recorded(few) = name.fail(hold.token).await? else {
        bail!("not recorded");
    };
    let mut left = Vec::new();
    // Those that are woken are gone: the repair takes the next ones, until none is left.
    loop {
        let (next, page) = named_effects::list_left_behind(world.cell.every(), None).await?;
        assert_eq!(page, None, "one page");
        if next.is_empty() {
            break;
        }
        assert!(next.len() <= 3, "{}", next.len());
        let (woken, _) = named_effects::wake(world.cell.every(), next).await?;
        named_effects::woken(name.cell(), name.id, &woken).await?;
        left.extend(woken.iter().map(number));
    }
    let next = name.first(script(2), "a").await?;
    for number in 10..30 {
        name.begin(run(number), "a").await?;
    }
    let NamedReport::Recorded(all) = name.done(next.token, "x").await? else {
        bail!("not recorded");
    };

    assert_eq!(few.iter().map(number).collect::<Vec<_>>(), [10, 11, 12]);
    assert_eq!(left, (10..30).collect::<Vec<u128>>());
    assert_eq!(all.len(), 20);
    Ok(())
}
