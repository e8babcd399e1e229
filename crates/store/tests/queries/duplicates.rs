//! Repeats: on disk before the caller gets its answer, over one connection, and never the whole
//! disk.

use anyhow::Result;
use semel_model::{ClaimId, Fingerprint, RunId, TriggerKind};
use semel_store::duplicates::{
    self, DuplicateVerdict, HeldArrival, PAYLOADS_MAX, StoppedRepeat, Subject, Tally,
};
use semel_store::writer::WriteError;
use semel_testkit::until;
use serde_json::{Value, json};

use crate::world::{World, delivery};

fn repeat(claim: ClaimId, number: usize) -> Result<StoppedRepeat> {
    let payload = format!("{{\"n\":{number}}}");
    let input = semel_model::json::parse_strict(payload.as_bytes())?;
    Ok(StoppedRepeat {
        subject: Subject::Claim(claim),
        namespace_id: 1,
        run: RunId::derive(claim, 0),
        fingerprint: Fingerprint::of(&input),
        kind: DuplicateVerdict::Held,
        payload: Some(payload),
        arrival: None,
        at: "2026-01-01T00:00:00Z".parse()?,
    })
}

#[tokio::test]
async fn a_duplicate_is_on_disk_before_its_answer() -> Result<()> {
    let world = World::start().await?;
    let claim = delivery("key", "{}", None)?.claim;
    let other = world.connect().await?;
    other
        .batch_execute("BEGIN; LOCK TABLE duplicates IN SHARE MODE")
        .await?;
    let tally = Tally::start(&world.cell);

    tally.add(repeat(claim, 1)?);
    // Until the writer has taken it out of memory and waits for the lock.
    world.until_waiting_for_a_lock().await?;
    let caller = tally.clone();
    let telling = tokio::spawn(async move { caller.flush().await });
    // An answer that needs no commit is there before another session has its own.
    for _ in 0..3 {
        world.count_connections().await?;
    }
    let told = telling.is_finished();
    other.batch_execute("COMMIT").await?;
    let at_last = async || -> Result<bool> { Ok(tally.flush().await.is_ok()) };
    until("the repeat to be on disk", at_last, |is_on_disk| {
        *is_on_disk
    })
    .await?;

    assert!(!told, "no caller may have an answer yet");
    let (kept, _) = duplicates::list(world.cell.every(), 1, None, 10, true).await?;
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].count, 1);
    Ok(())
}

#[tokio::test]
async fn a_held_delivery_with_a_zero_byte_is_recorded_and_listed_by_its_flow() -> Result<()> {
    let world = World::start().await?;
    let tally = Tally::start(&world.cell);
    let claim = delivery("z\0z", "{}", None)?.claim;
    let arrival = HeldArrival {
        flow: "holds".to_owned(),
        trigger: TriggerKind::Webhook,
        key: "z\0z".to_owned(),
        headers: json!({ "x-note": "a\0b" }),
        query: Value::Null,
        by: None,
        fingerprint: None,
    };
    let held = StoppedRepeat {
        payload: Some(r#"{"id":"z\u0000z"}"#.to_owned()),
        arrival: Some(arrival.to_columns()),
        ..repeat(claim, 1)?
    };

    tally.record(held).await?;

    let listed =
        async |flow| duplicates::list_held(world.cell.every(), 1, Some(flow), None, 10, true).await;
    let (of_flow, of_another) = (listed("holds").await?.0, listed("other").await?.0);
    assert_eq!((of_flow.len(), of_another.len()), (1, 0));
    assert_eq!(of_flow[0].came_as.as_deref(), Some("z\0z"));
    Ok(())
}

#[tokio::test]
async fn a_repeat_that_the_database_refuses_is_an_error_to_its_caller_and_to_no_other() -> Result<()>
{
    let world = World::start().await?;
    let tally = Tally::start(&world.cell);
    let (bad, good) = (delivery("bad", "{}", None)?, delivery("good", "{}", None)?);
    let bad = StoppedRepeat {
        payload: Some("no JSON".to_owned()),
        ..repeat(bad.claim, 1)?
    };
    let good = repeat(good.claim, 2)?;

    let (refused, recorded) = tokio::join!(tally.record(bad), tally.record(good));
    tally.flush().await?;

    assert!(
        matches!(refused, Err(WriteError::Refused(_))),
        "{refused:?}"
    );
    assert!(recorded.is_ok(), "{recorded:?}");
    let (kept, _) = duplicates::list(world.cell.every(), 1, None, 10, true).await?;
    assert_eq!(kept.len(), 1, "{kept:?}");
    Ok(())
}

#[tokio::test]
async fn the_first_payloads_are_kept_and_the_others_counted() -> Result<()> {
    let world = World::start().await?;
    let claim = delivery("key", "{}", None)?.claim;
    let tally = Tally::start(&world.cell);

    for number in 0..8 {
        tally.add(repeat(claim, number)?);
    }
    tally.flush().await?;
    for number in 4..20 {
        tally.add(repeat(claim, number)?);
        if number % 5 == 0 {
            tally.flush().await?;
        }
    }
    tally.flush().await?;

    let (kept, _) = duplicates::list(world.cell.every(), 1, None, 100, true).await?;
    let (whole, counted): (Vec<_>, Vec<_>) = kept.iter().partition(|row| row.payload.is_some());
    assert_eq!((whole.len(), counted.len()), (PAYLOADS_MAX, 1), "{kept:?}");
    let all: i64 = kept.iter().map(|row| row.count).sum();
    assert_eq!(all, 24, "each is counted once");
    Ok(())
}

#[tokio::test]
async fn waiting_for_the_disk_opens_no_connection() -> Result<()> {
    let world = World::start().await?;
    let tally = Tally::start(&world.cell);
    tally.add(repeat(delivery("first", "{}", None)?.claim, 0)?);
    tally.flush().await?;
    let before = world.count_connections().await?;

    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..200 {
        let claim = delivery(&format!("key-{number}"), "{}", None)?.claim;
        let (tally, stopped) = (tally.clone(), repeat(claim, number)?);
        waiting.spawn(async move {
            tally.add(stopped);
            tally.flush().await
        });
    }
    let mut most = before;
    while !waiting.is_empty() {
        most = most.max(world.count_connections().await?);
        while let Some(done) = waiting.try_join_next() {
            done??;
        }
    }

    assert_eq!((before, most), (1, 1), "one task writes for all");
    Ok(())
}

/// Duplicates of a namespace, as (number, how many seconds ago, verdict).
async fn fill(world: &World, rows: &[(i32, f64, &str)]) -> Result<()> {
    let client = world.connect().await?;
    let text = "
        WITH n AS (INSERT INTO namespaces (id, name) OVERRIDING SYSTEM VALUE VALUES (7001, 'repeated')
                   ON CONFLICT DO NOTHING)
        INSERT INTO duplicates (subject, stopped_by, fingerprint, namespace_id, run_id, verdict, count,
                                first_at, last_at, minute)
        SELECT md5($1::int4::text)::uuid, 'claim', md5('f')::uuid, 7001, md5('r')::uuid, $3, 1, t.at, t.at,
               date_trunc('minute', t.at)
          FROM (SELECT moment() - make_interval(secs => $2) AS at) AS t";
    for (number, ago, verdict) in rows {
        client.execute(text, &[number, ago, verdict]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn pages_of_one_minute_have_each_duplicate_once() -> Result<()> {
    let world = World::start().await?;
    let day = 86_400.0;
    fill(
        &world,
        &[
            (1, day, "repeat"),
            (2, day, "repeat"),
            (3, day, "mismatch"),
            (4, day, "repeat"),
            (5, 2.0 * day, "repeat"),
        ],
    )
    .await?;

    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let cell = world.cell.every();
        let (page, _) = duplicates::list(cell, 7001, before.as_ref(), 2, false).await?;
        let Some(last) = page.last() else { break };
        before = Some(last.position());
        seen.extend(page.iter().map(|it| it.subject));
    }

    let mut each = seen.clone();
    each.sort_unstable();
    each.dedup();
    assert_eq!((seen.len(), each.len()), (5, 5), "{seen:?}");
    Ok(())
}

#[tokio::test]
async fn old_duplicates_are_forgotten_and_held_ones_stay() -> Result<()> {
    let world = World::start().await?;
    let day = 86_400.0;
    fill(
        &world,
        &[
            (1, 91.0 * day, "repeat"),
            (2, 91.0 * day, "held"),
            (3, 89.0 * day, "repeat"),
        ],
    )
    .await?;
    let history = semel_model::Span::from_secs(90 * 86_400);

    let forgotten = duplicates::forget(world.cell.every(), history).await?;
    let again = duplicates::forget(world.cell.every(), history).await?;

    let (left, _) = duplicates::list(world.cell.every(), 7001, None, 10, false).await?;
    let verdicts: Vec<&str> = left.iter().map(|it| it.verdict.as_str()).collect();
    assert_eq!((forgotten, again), (1, 0));
    assert_eq!(verdicts, ["repeat", "held"]);
    Ok(())
}
