//! Repeats: on disk before the caller gets its answer, over one connection, and never the whole
//! disk.

use std::time::Duration;

use anyhow::Result;
use semel_model::{ClaimId, Fingerprint, RunId};
use semel_store::duplicates::{
    self, DuplicateVerdict, PAYLOADS_MAX, StoppedRepeat, Subject, Tally,
};
use tokio::time::timeout;

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
    let told = timeout(Duration::from_millis(400), tally.flush()).await;
    other.batch_execute("COMMIT").await?;
    let at_last = timeout(Duration::from_secs(10), tally.flush()).await?;

    assert!(told.is_err(), "no caller may have an answer yet: {told:?}");
    assert!(at_last.is_ok(), "{at_last:?}");
    let kept = duplicates::list(world.cell.every(), 1, None, 10, true).await?;
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].count, 1);
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

    let kept = duplicates::list(world.cell.every(), 1, None, 100, true).await?;
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
