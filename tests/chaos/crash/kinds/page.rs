//! The page that readers get: what was found, which is what was expected.

use std::fmt::Write as _;

use anyhow::Result;

use super::super::page::{describe_end, keep_page, write_head};
use super::super::table::Finding;
use super::kind::{Cell, FAULTS, KINDS, Kind};

const OPENING: &str = "# The crash table, by kind of step

[The crash table](crash-table.md) asks what a guard makes of a crash. This one asks it of every kind
of step, at the points that only this kind has, with real destinations: a PostgreSQL of its own, an
OpenSSH server, a mail server, another flow, an HTTP service. The faults are the same: a server is
killed; it is paused past its lease, and wakes up after another has taken over; it loses its own
database for a moment.

A cell reads *end of the run · effects counted at the destination*. *In doubt* means that Semel cannot
know, and asks an operator instead of performing the step again. In every cell there is
one run for the key, the journal has no gap and its leases only grow, and the ledger says what the
record says.
";

const CLOSING: &str = "
## How to reproduce

    cargo nextest run -p semel-tests --test chaos every_kind

The test works out what each cell must come to from the design (`tests/chaos/crash/kinds/oracle.rs`),
plays all of them, and writes this page. `seeded_mistakes_turn_kinds_red` shows that it can fail: a
server that records before it sends, and one that leaves a new key with every attempt, turn cells red.
";

/// Writes the page, and objects when it was not up to date.
pub(super) fn keep(findings: &[Finding<Cell>]) -> Result<()> {
    let mut page = OPENING.to_owned();
    writeln!(page, "\n{} cells.", findings.len())?;
    for kind in KINDS {
        write_kind(&mut page, kind, findings)?;
    }
    page.push_str(CLOSING);
    keep_page("crash-kinds.md", &page)
}

fn write_kind(page: &mut String, kind: Kind, findings: &[Finding<Cell>]) -> Result<()> {
    let (title, about) = about(kind);
    writeln!(page, "\n## {title}\n\n{about}\n")?;
    write_head(page, &FAULTS)?;
    for point in kind.points() {
        let texts = FAULTS.map(|fault| {
            let cell = Cell { kind, point, fault };
            let found = findings.iter().find(|finding| finding.cell == cell);
            found.map_or("–".to_owned(), describe_end)
        });
        writeln!(page, "| {} | {} |", point.about(), texts.join(" | "))?;
    }
    Ok(())
}

fn about(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Db => (
            "`db`",
            "An `INSERT` into another PostgreSQL: the row commits with the effect's marker. Rows are \
             counted.",
        ),
        Kind::SshMarked => (
            "`ssh` with `marker: true`",
            "A command that appends a line to a file. The server that takes over checks the marker on the \
             other machine. Lines are counted.",
        ),
        Kind::Ssh => (
            "`ssh`",
            "The same command without a marker, `guard: review`: it is sent at most once.",
        ),
        Kind::Mail => (
            "`notify` by mail",
            "One mail, `guard: review`. Mails are counted where they arrived: there are never two.",
        ),
        Kind::Emit => (
            "`emit`",
            "An event commits with the run; a flow with an event trigger takes it and counts. What is \
             counted is the receiver's effect.",
        ),
        Kind::Sets => (
            "`kv` sets and an `emit`",
            "Two sets and an event that are one commit, together with their intents. What is counted is how \
             often the entry was set.",
        ),
        Kind::Persist => (
            "`persist`",
            "A value that is kept by reference, named by the digest of its bytes. Resources are counted.",
        ),
        Kind::Http => (
            "`http` over a connection that honours keys",
            "A `POST` that says nothing about its guard: the connection does.",
        ),
    }
}
