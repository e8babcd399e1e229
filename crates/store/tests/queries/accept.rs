//! Accepting: one key, one run, and every sender gets the same answer.

use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::future::try_join_all;
use semel_model::effect::EffectState;
use semel_model::event::Event;
use semel_model::{ClaimVerdict, EffectId, Guard, InSlot, RunId, Span};
use semel_store::audit::AuditEntry;
use semel_store::claims::{self, Delivery, FirstEffect};
use semel_store::journal::EffectChange;
use semel_store::pauses;
use semel_store::runs::{self, ReopenResult};
use semel_store::writer::{ITEM_BYTES_MAX, WriteError};
use semel_testkit::patience;
use uuid::Uuid;

use crate::world::{World, delivery};

#[tokio::test]
async fn the_first_delivery_makes_the_run_and_the_second_finds_it() -> Result<()> {
    let world = World::start().await?;
    let accept = claims::start_accepting(&world.cell);

    let first = accept
        .write(delivery("order-1", r#"{"a":1}"#, None)?)
        .await?;
    let again = accept
        .write(delivery("order-1", r#"{ "a": 1.0 }"#, None)?)
        .await?;
    let other = accept
        .write(delivery("order-1", r#"{"a":2}"#, None)?)
        .await?;

    assert_eq!(first.verdict, ClaimVerdict::New);
    assert_eq!(
        again.verdict,
        ClaimVerdict::Duplicate,
        "spelling does not matter"
    );
    assert_eq!(other.verdict, ClaimVerdict::Mismatch);
    assert_eq!((first.run, first.run), (again.run, other.run));
    Ok(())
}

#[tokio::test]
async fn a_thousand_at_once_from_two_servers_make_one_run() -> Result<()> {
    let world = World::start().await?;
    let servers = [
        claims::start_accepting(&world.cell),
        claims::start_accepting(&world.cell),
    ];

    let deliveries = (0..1000).map(|n| {
        let server = &servers[n % 2];
        async move { anyhow::Ok(server.write(delivery("same", "{}", None)?).await?) }
    });
    let met = try_join_all(deliveries).await?;

    let new = met
        .iter()
        .filter(|met| met.verdict == ClaimVerdict::New)
        .count();
    assert_eq!(new, 1);
    assert!(met.iter().all(|one| one.run == met[0].run));
    Ok(())
}

#[tokio::test]
async fn a_key_that_was_dropped_makes_a_new_run() -> Result<()> {
    let world = World::start().await?;
    let accept = claims::start_accepting(&world.cell);
    let first = accept.write(delivery("again", "{}", None)?).await?;
    let claim = delivery("again", "{}", None)?.claim;

    let mut last = first.run;
    for number in 1..4 {
        assert!(
            !claims::drop_claim(world.cell.of(claim), claim, last, false, &drop_act()).await?,
            "its run has not ended"
        );
        world.end(last, "succeeded").await?;
        assert!(claims::drop_claim(world.cell.of(claim), claim, last, false, &drop_act()).await?);
        let next = accept.write(delivery("again", "{}", None)?).await?;
        assert_eq!(next.verdict, ClaimVerdict::New);
        assert_eq!(next.run, RunId::derive(claim, number));
        last = next.run;
        assert_eq!(
            next.run.slot(),
            first.run.slot(),
            "a key never leaves its slot"
        );
    }
    Ok(())
}

fn drop_act() -> AuditEntry {
    AuditEntry::new(1, "test", "key.drop", "orders again")
}

async fn reopen(world: &World, run: RunId) -> Result<ReopenResult> {
    let events = [Event::Resumed {
        reason: "once more".to_owned(),
        by: None,
        asks_again: false,
    }];
    let keep = Span::from_secs(60);
    Ok(runs::reopen(world.cell.of(run), run, &events, None, keep).await?)
}

/// How often the key of the next test came and was forgotten.
const FORGOTTEN: i32 = 3_000;

#[tokio::test]
async fn a_key_that_was_forgotten_thousands_of_times_does_not_split_its_batch() -> Result<()> {
    let world = World::start().await?;
    let accept = claims::start_accepting(&world.cell);
    let often = delivery("often", "{}", None)?;
    world.bring_back(&often, FORGOTTEN).await?;

    let fresh = (0..200).map(|n| delivery(&format!("fresh-{n}"), "{}", None));
    let mut all: Vec<Delivery> = fresh.collect::<Result<_>>()?;
    let keys: Vec<Uuid> = all.iter().map(|it| *it.claim.as_uuid()).collect();
    all.insert(100, often.clone());
    let met = try_join_all(all.into_iter().map(|it| accept.write(it))).await?;

    assert!(met.iter().all(|met| met.verdict == ClaimVerdict::New));
    let next = RunId::derive(often.claim, FORGOTTEN.unsigned_abs() + 1);
    assert_eq!(met[100].run, next);
    // Two lanes, and in each a first delivery that is written by itself: a few commits, not
    // hundreds.
    let batches = "SELECT count(DISTINCT xmin::text) FROM claims WHERE id = ANY ($1)";
    let client = world.cell.reader().await?;
    let batches: i64 = client.query_one(batches, &[&keys]).await?.get(0);
    assert!(batches <= 20, "200 fresh keys took {batches} commits");
    Ok(())
}

#[tokio::test]
async fn many_deliveries_of_a_free_key_make_one_run() -> Result<()> {
    let world = World::start().await?;
    let servers = [
        claims::start_accepting(&world.cell),
        claims::start_accepting(&world.cell),
    ];
    world.bring_back(&delivery("free", "{}", None)?, 7).await?;

    let deliveries = (0..100).map(|n| {
        let server = &servers[n % 2];
        async move { anyhow::Ok(server.write(delivery("free", "{}", None)?).await?) }
    });
    let met = try_join_all(deliveries).await?;

    let new = met
        .iter()
        .filter(|met| met.verdict == ClaimVerdict::New)
        .count();
    assert_eq!(new, 1);
    let claim = delivery("free", "{}", None)?.claim;
    assert!(met.iter().all(|met| met.run == RunId::derive(claim, 8)));
    Ok(())
}

#[tokio::test]
async fn the_newest_runs_of_a_key_are_found_first() -> Result<()> {
    let world = World::start().await?;
    let often = delivery("often", "{}", None)?;
    world.bring_back(&often, 20).await?;

    let found = claims::list_newest_runs(world.cell.every(), &[often.claim], 8).await?;

    let wanted: Vec<RunId> = (13..=20)
        .rev()
        .map(|n| RunId::derive(often.claim, n))
        .collect();
    assert_eq!(found, wanted);
    Ok(())
}

#[tokio::test]
async fn a_key_is_dropped_only_for_the_run_that_was_judged() -> Result<()> {
    let world = World::start().await?;
    let accept = claims::start_accepting(&world.cell);
    let claim = delivery("two", "{}", None)?.claim;
    let first = accept.write(delivery("two", "{}", None)?).await?.run;
    world.end(first, "failed").await?;

    // Two operators have judged the first run; between the two the key comes again.
    assert!(claims::drop_claim(world.cell.of(claim), claim, first, false, &drop_act()).await?);
    let second = accept.write(delivery("two", "{}", None)?).await?.run;
    let late = claims::drop_claim(world.cell.of(claim), claim, first, false, &drop_act()).await?;
    let repeat = accept.write(delivery("two", "{}", None)?).await?;

    assert!(!late, "the key is another run's");
    assert_eq!(
        (repeat.verdict, repeat.run),
        (ClaimVerdict::Duplicate, second)
    );
    Ok(())
}

#[tokio::test]
async fn a_run_whose_key_was_dropped_is_resumed_only_while_no_other_has_the_key() -> Result<()> {
    let world = World::start().await?;
    let accept = claims::start_accepting(&world.cell);
    let claim = delivery("back", "{}", None)?.claim;
    let first = accept.write(delivery("back", "{}", None)?).await?.run;
    world.end(first, "failed").await?;
    assert!(claims::drop_claim(world.cell.of(claim), claim, first, false, &drop_act()).await?);

    assert!(reopen(&world, first).await? == ReopenResult::Reopened);
    let while_resumed = accept.write(delivery("back", "{}", None)?).await?;
    assert!(!claims::drop_claim(world.cell.of(claim), claim, first, false, &drop_act()).await?);
    world.end(first, "failed").await?;
    assert!(claims::drop_claim(world.cell.of(claim), claim, first, false, &drop_act()).await?);
    let second = accept.write(delivery("back", "{}", None)?).await?;
    let resumed = reopen(&world, first).await?;

    assert_eq!(
        while_resumed.verdict,
        ClaimVerdict::Duplicate,
        "it has its key again"
    );
    assert_eq!(second.verdict, ClaimVerdict::New);
    assert_eq!(
        resumed,
        ReopenResult::KeyTaken,
        "the second run has the key"
    );
    Ok(())
}

#[tokio::test]
async fn a_batch_is_bounded_by_bytes() -> Result<()> {
    let world = World::start().await?;
    let accept = claims::start_accepting(&world.cell);
    let large = format!("\"{}\"", "x".repeat(1 << 20));

    let mut writing = tokio::task::JoinSet::new();
    for number in 0..40 {
        let (accept, delivery) = (
            accept.clone(),
            delivery(&format!("key-{number}"), &large, None)?,
        );
        writing.spawn(async move { accept.write(delivery).await });
    }
    while let Some(written) = writing.join_next().await {
        written??;
    }

    let client = world.connect().await?;
    let most = "SELECT max(count) FROM (SELECT count(*) FROM journal GROUP BY at) AS batches";
    let most: i64 = client.query_one(most, &[]).await?.get(0);
    assert!(most <= 8, "{most} megabytes in one statement");
    Ok(())
}

#[tokio::test]
async fn a_delivery_too_large_for_a_message_is_refused_at_once() -> Result<()> {
    let world = World::start().await?;
    let (cell, proxy) = world.counted().await?;
    let accept = claims::start_accepting(&cell);
    let mut monster = delivery("monster", "{}", None)?;
    monster.events = " ".repeat(ITEM_BYTES_MAX + 1);
    let before = proxy.accepted();

    let refused = accept.write(monster).await;

    assert!(
        matches!(refused, Err(WriteError::Refused(_))),
        "{refused:?}"
    );
    assert_eq!(proxy.accepted(), before, "it was not tried");
    Ok(())
}

#[tokio::test]
async fn a_writer_that_may_not_try_again_tries_once() -> Result<()> {
    let world = World::start().await?;
    let accepting = claims::start_accepting(&world.cell);
    let client = world.connect().await?;

    accepting.stop_trying(Instant::now() + patience());
    accepting.write(delivery("one", "{}", None)?).await?;
    // A delivery after that finds the table locked, and gets its answer in time.
    accepting.stop_trying(Instant::now() + Duration::from_millis(100));
    client
        .batch_execute("BEGIN; LOCK TABLE claims IN ACCESS EXCLUSIVE MODE")
        .await?;
    let late = accepting.write(delivery("two", "{}", None)?).await;

    let Err(WriteError::Unavailable(why)) = late else {
        anyhow::bail!("{late:?}");
    };
    assert!(why.starts_with("the process stops"), "not the lock: {why}");
    Ok(())
}

/// A first effect of a key, decided under a version of what is paused.
fn first_effect(of: &Delivery, pause_version: i64) -> FirstEffect {
    let run = RunId::derive(of.claim, 0);
    let came = of.events.strip_suffix(']').unwrap_or(&of.events);
    FirstEffect {
        events: format!(r#"{came},{{"event":"skipped","step":"a"}}]"#),
        effect: Some(EffectChange {
            effect: EffectId::derive(run, "a", "", 0),
            step: "a".to_owned(),
            kind: "http",
            guard: Guard::Review,
            state: EffectState::Pending,
            attempt: 1,
            first: true,
            follows: false,
            was_in_doubt: false,
            external_id: None,
            note: None,
        }),
        pause_version,
        is_stale: false,
    }
}

/// The same delivery is submitted again after a lost answer. Whether its first effect was written with
/// it is what the rows say: a run that is taken to have none while its row has one would be in doubt
/// about an effect that nobody performs, and one that is taken to have it would perform it unrecorded.
#[tokio::test]
async fn a_delivery_submitted_again_learns_from_the_rows_whether_its_effect_was_written()
-> Result<()> {
    let world = World::start().await?;
    let accept = claims::start_accepting(&world.cell);
    let version = pauses::version(world.cell.home()).await?;
    let with_effect = |key: &str, version: i64| -> Result<Delivery> {
        let mut delivery = delivery(key, "{}", None)?;
        delivery.first_effect = Some(first_effect(&delivery, version));
        Ok(delivery)
    };
    let stale = |mut delivery: Delivery| {
        if let Some(first) = &mut delivery.first_effect {
            first.is_stale = true;
        }
        delivery
    };

    // Written with its effect; a pause fences the second submission, or makes it look stale.
    let written = with_effect("written", version)?;
    let first = accept.write(written.clone()).await?;
    let again = accept.write(stale(written.clone())).await?;
    let other = with_effect("other", version + 1)?;
    let together = [written.clone(), other].map(|it| accept.write(it));
    let together = try_join_all(together).await?;
    // Written without it, because of a pause; the second submission does not know of that.
    let left_out = with_effect("left-out", version)?;
    let without = accept.write(stale(left_out.clone())).await?;
    let found_without = accept.write(left_out).await?;
    // Without a plan there is nothing to leave out.
    let plain = delivery("plain", "{}", None)?;
    accept.write(plain.clone()).await?;
    let plain = accept.write(plain).await?;

    let verdicts = [&first, &again, &together[0], &without, &found_without];
    assert!(verdicts.iter().all(|met| met.verdict == ClaimVerdict::New));
    assert!(
        !first.undecided && !again.undecided,
        "its row has the effect"
    );
    assert!(!together[0].undecided && together[1].undecided);
    assert!(without.undecided && found_without.undecided, "it has none");
    assert!(!plain.undecided);
    Ok(())
}

/// What a run follows stands in its journal, and a submission that finds the run again did not make it.
#[tokio::test]
async fn a_later_run_found_again_after_a_lost_answer_is_decided_from_its_journal() -> Result<()> {
    let world = World::start().await?;
    let accept = claims::start_accepting(&world.cell);
    let often = delivery("often", "{}", None)?;
    world.bring_back(&often, 3).await?;

    let made = accept.write(often.clone()).await?;
    let found = accept.write(often.clone()).await?;

    assert!(made.follows.is_some() && !made.undecided);
    assert_eq!((found.verdict, found.run), (ClaimVerdict::New, made.run));
    assert!(found.undecided, "the journal says what it follows");
    Ok(())
}
