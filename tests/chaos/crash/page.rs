//! The page that readers get: what was found, which is what was expected.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

use super::cell::{Cell, FAULTS, GUARDS, Guard, POINTS};
use super::fault::Fault;
use super::table::Finding;

const OPENING: &str = "# The crash table

One effect, one fault, at every point of the effect's life. Each cell was played with real
processes: a server with a run in its hands is struck at that very point, another server is there to
take over, the sender sends again when it got no answer, and the destination counts.

A cell reads *end of the run · effects that the destination counted · requests that it saw*, probes
aside. *In doubt* means that Semel cannot know, and asks an operator instead of sending the request
again.

The faults:

- **server killed**: SIGKILL. Another server takes the run over once the lease is past.
- **server paused past its lease**: SIGSTOP; another server takes the run over; then SIGCONT. The
  paused server wakes up in the middle of what it was doing. It may neither send nor write any
  more; a response that it holds is a late response.
- **database connections cut**: every connection of the server to PostgreSQL is reset, and new ones
  are refused for a moment. The server keeps its lease.
- **PostgreSQL killed**: all of its processes at one moment, then started again.

*Its answer lost or late* means that PostgreSQL committed and the server does not know: the answer is
held back, and then lost with the wire, or let through after the pause.

In every cell there is one run for the key, all answers to the sender name it, a further delivery
names it again, the journal has no gap and its leases only grow, the ledger says what the journal
says, and all requests of an effect carry the same `Idempotency-Key`.

What the kinds of steps make of it (`db`, `ssh`, mail, events, resources) has
[a table of its own](crash-kinds.md), and so do [business keys](crash-business-keys.md), where several runs
ask for one effect.
";

const CLOSING: &str = "
## How to reproduce

    cargo nextest run -p semel-tests --test chaos every_crash

The test works out what each cell must come to from the design (`tests/chaos/crash/oracle.rs`),
plays all of them, and writes this page. `seeded_mistakes_turn_cells_red` shows that it can fail: a
server without its fence, one that records before it sends, and one that sends a new key with every
attempt each turn cells red.
";

/// Writes the page, and objects when it was not up to date.
pub(crate) fn keep(findings: &[Finding<Cell>]) -> Result<()> {
    let mut page = OPENING.to_owned();
    writeln!(page, "\n{} cells.", findings.len())?;
    for guard in GUARDS {
        write_guard(&mut page, guard, findings)?;
    }
    page.push_str(CLOSING);
    keep_page("crash-table.md", &page)
}

/// Writes a page of `docs/`, and objects when it was not up to date.
pub(crate) fn keep_page(name: &str, page: &str) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs")
        .join(name);
    if fs::read_to_string(&path).is_ok_and(|kept| kept == page) {
        return Ok(());
    }
    fs::write(path, page)?;
    ensure!(
        std::env::var_os("SEMEL_ACCEPT_PAGE").is_some(),
        "docs/{name} was out of date and is written anew: look at it and commit it"
    );
    Ok(())
}

/// The head of a table that has a column for each fault.
pub(super) fn write_head(page: &mut String, faults: &[Fault]) -> Result<()> {
    let heads: Vec<&str> = faults.iter().map(|fault| fault.about()).collect();
    writeln!(page, "| when | {} |", heads.join(" | "))?;
    writeln!(page, "|---|{}", "---|".repeat(heads.len()))?;
    Ok(())
}

/// How the run ended, and how often the destination acted.
pub(super) fn describe_end<C>(finding: &Finding<C>) -> String {
    let state = match finding.state.as_str() {
        "in_doubt" => "**in doubt**".to_owned(),
        state => state.replace('_', " "),
    };
    format!("{state} · {}", finding.counted.effects)
}

fn write_guard(page: &mut String, guard: Guard, findings: &[Finding<Cell>]) -> Result<()> {
    writeln!(page, "\n## `{}`\n\n{}\n", guard.name(), about(guard))?;
    write_head(page, &FAULTS)?;
    for point in POINTS {
        let cells = FAULTS.map(|fault| {
            let cell = Cell::new(point, guard, fault);
            findings.iter().find(|finding| finding.cell == cell)
        });
        if cells.iter().all(Option::is_none) {
            continue;
        }
        let texts = cells.map(|finding| finding.map_or("–".to_owned(), describe));
        writeln!(page, "| {} | {} |", point.about(), texts.join(" | "))?;
    }
    Ok(())
}

fn describe(finding: &Finding<Cell>) -> String {
    let end = describe_end(finding);
    match (finding.cell.guard, finding.counted.calls) {
        (Guard::Transaction, _) | (_, None) => end,
        (_, Some(calls)) => format!("{end} · {calls}"),
    }
}

fn about(guard: Guard) -> &'static str {
    match guard {
        Guard::Transaction => {
            "A counter in the engine's own database: effect and marker commit together. It sends \
             nothing, so the points on the wire do not exist."
        }
        Guard::Key => "A `POST` to a destination that honours the key.",
        Guard::Natural => "A `PUT` to an address: setting twice is setting once.",
        Guard::Probe => {
            "A `POST` to a destination that ignores the key; a read tells whether it happened."
        }
        Guard::Review => {
            "A `POST` to a destination that ignores the key, and nothing that could tell: the \
             engine sends at most once."
        }
        Guard::Repeat => {
            "A `POST` that the author declared additive: it is repeated where its outcome is not \
             known."
        }
    }
}
