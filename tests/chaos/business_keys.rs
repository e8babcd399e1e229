//! A fault at every commit around a business key: all runs of a key have one effect, and none waits
//! for a holder that has ended.
//!
//! What each cell must come to is worked out from the design by [`oracle`], never from what was seen;
//! effects are counted at the destination. All cells of a fault are set up one after the other and
//! struck together. The server that the fault strikes is the test build; what takes over is the
//! product as it is shipped.

mod cell;
mod inspect;
mod lane;
mod oracle;
mod page;
mod snapshot;
mod strike;

use std::time::Instant;

use anyhow::{Result, bail, ensure};
use futures_util::future::try_join_all;

use self::cell::{Cell, FAULTS, Fault, Guard, Meeting, Point};
use self::lane::Lane;
use self::snapshot::Objections;

/// The least cells that the table has.
const CELLS_MIN: usize = 120;

/// How often cells are played that the machine may have kept from showing anything.
const PLAYS_MAX: usize = 3;

/// How often all are played with a longer lease, because the machine was too slow for the one before.
const SETTINGS_MAX: u32 = 5;

#[tokio::test(flavor = "multi_thread")]
async fn every_crash_around_a_business_key_leaves_one_effect() -> Result<()> {
    let begun = Instant::now();
    let all = FAULTS.map(Cell::all);
    let count: usize = all.iter().map(Vec::len).sum();
    ensure!(count >= CELLS_MIN, "only {count} cells");

    let [kill, pause, lost] = all;
    let (killed, paused, lost) = tokio::try_join!(
        play(Fault::Kill, &kill, None),
        play(Fault::Pause, &pause, None),
        play_lost(&lost),
    )?;

    let violations = describe([killed, paused, lost]);
    let seconds = begun.elapsed().as_secs_f64();
    println!("{count} cells, {seconds:.0} s, violations:\n{violations}");
    ensure!(violations.is_empty(), "\n{violations}\n");
    page::keep()
}

/// A seeded bug, the fault that shows it, and the cells that are played.
type Watchful = (&'static str, Fault, &'static [(Guard, Meeting, Point)]);

/// The cells that a seeded bug must turn red, every one.
const WATCHFUL: [Watchful; 3] = [
    (
        "name-done-before-effect",
        Fault::Kill,
        &[
            (Guard::Review, Meeting::First, Point::IntentAfter),
            (Guard::Key, Meeting::Awaited, Point::IntentAfter),
            (Guard::Review, Meeting::First, Point::Sent),
            (Guard::Probe, Meeting::First, Point::OutcomeBefore),
        ],
    ),
    // A destination that honours the key may hide this one: it acts once for both servers.
    (
        "name-token-not-compared",
        Fault::Pause,
        &[
            (Guard::Review, Meeting::Refused, Point::NoticeBefore),
            (Guard::Probe, Meeting::Refused, Point::NoticeBefore),
        ],
    ),
    (
        "named-doubt-begun-again",
        Fault::Kill,
        &[
            (Guard::Review, Meeting::InDoubt, Point::AskBefore),
            (Guard::Review, Meeting::InDoubt, Point::BeginBefore),
            (Guard::Review, Meeting::First, Point::Sent),
        ],
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn seeded_mistakes_turn_business_keys_red() -> Result<()> {
    let lanes = WATCHFUL.map(|(mistake, fault, places)| async move {
        let at = |(guard, meeting, point): &(Guard, Meeting, Point)| Cell {
            fault,
            guard: *guard,
            meeting: *meeting,
            point: *point,
        };
        let cells: Vec<Cell> = places.iter().map(at).collect();
        // A machine that stands still may hide a bug for once.
        let mut hidden = cells;
        for _ in 0..PLAYS_MAX {
            let found = play(fault, &hidden, Some(mistake)).await?;
            println!("{mistake}:\n{}", describe([found.clone()]));
            hidden.retain(|cell| !found.contains_key(&cell.to_string()));
            if hidden.is_empty() {
                break;
            }
        }
        let first = hidden.first();
        ensure!(first.is_none(), "{first:?} does not notice {mistake}");
        Ok(())
    });
    try_join_all(lanes).await?;
    Ok(())
}

/// Plays cells whose answers are lost, again where another commit was first on the wire: its answer was lost instead.
async fn play_lost(cells: &[Cell]) -> Result<Objections> {
    for _ in 1..PLAYS_MAX {
        match play(Fault::LostAnswer, cells, None).await {
            Err(error) if error.is::<strike::NotCommitted>() => eprintln!("again: {error:#}"),
            played => return played,
        }
    }
    play(Fault::LostAnswer, cells, None).await
}

/// Plays cells of one fault on a database of their own; gives what is not as it must be. Where a lease ended that the
/// fault did not end, what runs come to is not what the table says: all are played again with a longer lease.
async fn play(fault: Fault, cells: &[Cell], mistake: Option<&'static str>) -> Result<Objections> {
    for setting in 0..SETTINGS_MAX {
        let mut lane = Lane::start(fault, setting, mistake).await?;
        let mut is_calm = None;
        let played = play_once(&mut lane, cells, &mut is_calm).await;
        if matches!(&played, Ok(found) if found.is_empty()) && mistake.is_none() {
            return played;
        }
        let is_calm = match is_calm {
            Some(is_calm) => is_calm,
            None => lane.is_calm().await?,
        };
        if is_calm {
            return played;
        }
        if mistake.is_none() {
            lane.expect_no_effect_too_many(cells).await?;
        }
        println!("{fault:?}: a lease ended that the fault did not end: {played:?}");
    }
    bail!("the machine is too slow for any lease")
}

/// Says on the way whether only those leases ended that the fault ends: looking at the cells moves the clock, which ends
/// leases as well.
async fn play_once(
    lane: &mut Lane,
    cells: &[Cell],
    is_calm: &mut Option<bool>,
) -> Result<Objections> {
    lane.prepare(cells).await?;
    match lane.fault {
        Fault::Kill | Fault::Pause => {
            let (second, found) = lane.strike(cells).await?;
            *is_calm = Some(lane.is_calm().await?);
            lane.conclude(&second, cells, found).await
        }
        Fault::LostAnswer => {
            lane.lose_answers(cells).await?;
            *is_calm = Some(lane.is_calm().await?);
            let found = Objections::new();
            lane.conclude(&lane.first, cells, found).await
        }
    }
}

/// A line to each cell.
fn describe<const LANES: usize>(found: [Objections; LANES]) -> String {
    let lines = found.iter().flatten();
    let lines = lines.map(|(cell, found)| format!("{cell}: {}", found.join("; ")));
    lines.collect::<Vec<_>>().join("\n")
}
