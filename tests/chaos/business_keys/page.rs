//! The page that readers get: what was found, which is what was expected.

use std::fmt::Write as _;

use anyhow::Result;

use super::cell::{Cell, FAULTS, Fault, GUARDS, Guard, MEETINGS, Meeting, POINTS, Point};
use super::oracle::Scene;
use crate::crash::keep_page;

const OPENING: &str = "# The crash table of business keys

Several runs ask for one effect by its [business key](business-keys.md), and a fault strikes one of them at every commit around
the key. Each cell was played with real processes, as in [the crash table](crash-table.md): one run is struck, at least two more runs
of the key come afterwards, and the destination counts.

A cell reads *effects that the destination counted · requests that it saw*, probes aside, once every doubt is settled. A request that
the destination refused is counted too. **In doubt** means that Semel cannot know and asks an operator; until then every other run of the
key waits, and the API shows behind which run. The operator looks at the destination: what is there happened, what is not did not, and
is sent then.

The faults:

- **server killed**: SIGKILL. Another server takes the runs over.
- **server paused past its lease**: SIGSTOP; another server takes the runs over; then SIGCONT.
- **answer of PostgreSQL lost**: the commit that follows the point is made, and the server does not hear of it.

In every cell all runs that succeed have the same result, all requests carry the same `Idempotency-Key`, no run waits for a
holder that has ended, and no run that has ended holds the key.
";

const CLOSING: &str = "
## How to reproduce

    cargo nextest run -p semel-tests --test chaos business_keys

The test works out what each cell must come to from the design (`tests/chaos/business_keys/oracle.rs`), plays all of them, and writes
this page. `seeded_mistakes_turn_business_keys_red` shows that it can fail: a server that calls a named effect done before it is
performed, one that takes the report of a former holder, and one that begins an effect in doubt again each turn cells red.
";

/// Writes the page, and objects when it was not up to date.
pub(super) fn keep() -> Result<()> {
    let all: Vec<Cell> = FAULTS.into_iter().flat_map(Cell::all).collect();
    let mut page = OPENING.to_owned();
    writeln!(page, "\n{} cells.", all.len())?;
    for meeting in MEETINGS {
        writeln!(page, "\n## {}\n", about(meeting))?;
        writeln!(page, "| guard | when | {} |", FAULTS.map(name).join(" | "))?;
        writeln!(page, "|---|---|{}", "---|".repeat(FAULTS.len()))?;
        for guard in GUARDS {
            for point in POINTS {
                write_row(&mut page, &all, (guard, meeting, point))?;
            }
        }
    }
    page.push_str(CLOSING);
    keep_page("crash-business-keys.md", &page)
}

fn write_row(page: &mut String, all: &[Cell], at: (Guard, Meeting, Point)) -> Result<()> {
    let (guard, meeting, point) = at;
    let cells = FAULTS.map(|fault| {
        let cell = Cell {
            fault,
            guard,
            meeting,
            point,
        };
        all.contains(&cell).then_some(cell)
    });
    if cells.iter().all(Option::is_none) {
        return Ok(());
    }
    let texts = cells.map(|cell| cell.map_or("–".to_owned(), describe));
    let row = (guard.name(), when(point), texts.join(" | "));
    writeln!(page, "| `{}` | {} | {} |", row.0, row.1, row.2)?;
    Ok(())
}

fn describe(cell: Cell) -> String {
    let (effects, calls) = cell.counts();
    match cell.doubts(Scene::Woken) {
        Some(_) => format!("**in doubt**, then {effects} · {calls}"),
        None => format!("{effects} · {calls}"),
    }
}

fn name(fault: Fault) -> &'static str {
    match fault {
        Fault::Kill => "server killed",
        Fault::Pause => "server paused past its lease",
        Fault::LostAnswer => "answer of PostgreSQL lost",
    }
}

fn about(meeting: Meeting) -> &'static str {
    match meeting {
        Meeting::First => "The struck run is the first of its key",
        Meeting::Awaited => "The struck run holds the key, and another run waits behind it",
        Meeting::Failed => "Another run has failed under the key",
        Meeting::Refused => "The destination refuses the struck run, and the next one performs it",
        Meeting::Cancelled => "An operator cancels the struck run before it has sent anything",
        Meeting::Done => "Another run has done it",
        Meeting::Held => "Another run holds the key, and is struck as well",
        Meeting::InDoubt => "Another run is in doubt",
    }
}

fn when(point: Point) -> &'static str {
    match point {
        Point::AskBefore => "before it says that it asks for the key",
        Point::AskAfter => "it has said that it asks for the key",
        Point::BeginBefore => "before it begins the named effect",
        Point::BeginAfter => "the named effect is begun, or met",
        Point::MeetBefore => "before it records what it met",
        Point::MeetAfter => "what it met is recorded",
        Point::IntentBefore => "before the intent commits",
        Point::IntentAfter => "intent committed, nothing sent yet",
        Point::Sent => "all sent, destination acted, no answer yet",
        Point::OutcomeBefore => "before the outcome commits",
        Point::OutcomeAfter => "outcome committed",
        Point::NoticeBefore => "before the named effect is updated",
        Point::NoticeAfter => "the named effect is updated, waiting runs are not woken yet",
    }
}
