//! The crash table: a fault at every point of an effect's life, under every guard.
//!
//! What each cell must come to is worked out from the design by [`oracle`], never from what was
//! seen. The table that readers get is written by the test that checks it: `docs/crash-table.md`.
//! One harness plays this table and that of [`kinds`]: `table` says what a table tells it, `round`
//! brings runs to their points and strikes, `inspect` looks at what became of them.

mod cell;
mod fault;
mod guards;
mod inspect;
mod journal;
mod kinds;
mod lane;
mod oracle;
mod page;
mod placed;
mod play;
mod round;
mod table;

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use futures_util::future::try_join_all;

use self::cell::{Cell, FAULTS, Guard, Point};
use self::fault::Fault;
use self::guards::Guards;
pub(crate) use self::page::keep_page;
use self::play::{play, play_all, violations};
use self::table::Finding;

/// The least cells that the table has.
const CELLS_MIN: usize = 200;

#[tokio::test(flavor = "multi_thread")]
async fn every_crash_ends_as_the_table_says() -> Result<()> {
    let cells = Cell::all();
    ensure!(cells.len() >= CELLS_MIN, "only {} cells", cells.len());

    let findings = play_all(&cells, FAULTS, Guards::start).await?;

    page::keep(&findings)
}

/// A seeded bug, the fault that shows it, and the cells that are played.
type Watchful = (&'static str, Fault, &'static [(Point, Guard)]);

/// The cells in which a seeded bug must show.
const WATCHFUL: [Watchful; 3] = [
    (
        "missing-fence",
        Fault::Pause,
        &[
            (Point::IntentBefore, Guard::Key),
            (Point::AcceptAfter, Guard::Review),
            (Point::OutcomeBefore, Guard::Repeat),
            (Point::OutcomeBefore, Guard::Transaction),
        ],
    ),
    (
        "outcome-before-send",
        Fault::Kill,
        &[
            (Point::OutcomeAfter, Guard::Review),
            (Point::OutcomeAfter, Guard::Key),
            (Point::OutcomeAfter, Guard::Probe),
        ],
    ),
    (
        "new-key-on-retry",
        Fault::Kill,
        &[
            (Point::Sent, Guard::Key),
            (Point::Answered, Guard::Key),
            (Point::OutcomeBefore, Guard::Key),
            (Point::HalfSent, Guard::Key),
        ],
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn seeded_mistakes_turn_cells_red() -> Result<()> {
    let lanes = WATCHFUL.map(|(mistake, fault, places)| async move {
        let cells = places
            .iter()
            .map(|(point, guard)| Cell::new(*point, *guard, fault))
            .collect();
        let findings = play(Guards::start().await?, fault, cells, Some(mistake)).await?;
        Ok::<_, anyhow::Error>((mistake, findings))
    });

    let caught: BTreeMap<&str, Vec<Finding<Cell>>> =
        try_join_all(lanes).await?.into_iter().collect();

    for (mistake, findings) in &caught {
        let violations = violations(findings);
        println!("{mistake}:\n{}", violations.join("\n"));
        ensure!(!violations.is_empty(), "nothing noticed {mistake}");
    }
    Ok(())
}
