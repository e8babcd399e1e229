//! The deep look: reads the whole database, page by page, for what must not be there.

use semel_store::invariants::{self, Breach, Invariant, InvariantReport};
use serde::Serialize;

use super::Line;
use crate::answer::chain;
use crate::commands::serve::Database;
use crate::config::Key;
use crate::context::Context;
use crate::output::Progress;
use crate::text::printable;

/// How many breaches of an invariant the table shows; programs get more.
const SHOWN_MAX: usize = 5;

/// The report of a deep look on one invariant, for programs.
#[derive(Debug, Serialize)]
pub(super) struct Deep {
    looked_at: u64,
    breach_count: u64,
    breaches: Vec<Named>,
    unknown: Vec<String>,
}

/// A run, event, list or duty, and what is the matter with it.
#[derive(Debug, Serialize)]
struct Named {
    subject: String,
    found: String,
}

impl From<InvariantReport> for Deep {
    fn from(report: InvariantReport) -> Self {
        let named = |breach: Breach| Named {
            subject: breach.subject,
            found: breach.found,
        };
        Self {
            looked_at: report.looked_at,
            breach_count: report.breach_count,
            breaches: report.breaches.into_iter().map(named).collect(),
            unknown: report.unknown,
        }
    }
}

pub(super) async fn look(ctx: &Context, database: &Database) -> Vec<Line> {
    let cell = match database.connect(ctx).await {
        Ok(cell) => cell,
        Err(problem) => {
            let mend = format!("set {} or pass --database", Key::Database.env());
            return vec![Line::fail("deep", problem.message(), mend)];
        }
    };
    let mut lines = Vec::new();
    for invariant in Invariant::ALL {
        let name = invariant.as_str();
        let progress = Progress::begin(ctx.reader, name);
        let tell = |rows: u64| progress.say(format!("{name}: {rows} rows looked at …"));
        let line = match invariants::check(&cell, invariant, semel_engine::DUTIES, tell).await {
            Ok(report) => line(invariant, report),
            Err(error) => Line::warn(
                name,
                format!("not known: {}", chain(&error)),
                "repeat `semel doctor --deep` when the database answers",
            ),
        };
        lines.push(line);
    }
    lines
}

fn line(invariant: Invariant, report: InvariantReport) -> Line {
    let name = invariant.as_str();
    let line = if report.breach_count > 0 {
        Line::fail(name, tell(&report), mend(invariant))
    } else if report.unknown.is_empty() {
        Line::ok(
            name,
            format!("{}; {} rows looked at", holds(invariant), report.looked_at),
        )
    } else {
        let found = format!("not known of {}", report.unknown.join(", "));
        Line::warn(
            name,
            printable(&found),
            "repeat it when the database is quieter",
        )
    };
    Line {
        deep: Some(report.into()),
        ..line
    }
}

/// The number of breaches, and the first of them.
fn tell(report: &InvariantReport) -> String {
    let named = report.breaches.iter().take(SHOWN_MAX);
    let named = named.map(|it| format!("{} {}", printable(&it.subject), printable(&it.found)));
    let first = named.collect::<Vec<_>>().join("\n");
    match report.breach_count.saturating_sub(SHOWN_MAX as u64) {
        0 => first,
        more => format!("{first}\nand {more} more: --json names them"),
    }
}

fn holds(invariant: Invariant) -> &'static str {
    match invariant {
        Invariant::Wakes => "no run sleeps over what it waits for",
        Invariant::Progress => "nothing is taken again and again in vain",
        Invariant::Records => "every run has its records",
        Invariant::Rows => "no run writes rows in vain",
        Invariant::Lists => "every list can be read",
        Invariant::Duties => "every background service is done in time",
    }
}

fn mend(invariant: Invariant) -> &'static str {
    match invariant {
        Invariant::Wakes => {
            "a server repairs these within minutes; if they stay, report them, and repeat the callback or `semel run resume`"
        }
        Invariant::Progress => {
            "read the logs of the servers for these; after an upgrade, let every server have the newer version"
        }
        Invariant::Records => {
            "do not delete anything; restore these rows from a backup, and report them"
        }
        Invariant::Rows => {
            "raise `per_second` or `concurrency` of the connection, or send less to it; report it if it goes on"
        }
        Invariant::Lists => "report it, with the words of the error",
        Invariant::Duties => "semel doctor names the server: read its log, and restart it",
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn a_breach_fails_and_what_is_not_known_is_said() {
        let breach = |at: usize| Breach {
            subject: format!("run_{at}"),
            found: "sleeps".to_owned(),
        };
        let broken = InvariantReport {
            looked_at: 9,
            breach_count: 7,
            breaches: (0..7).map(breach).collect(),
            unknown: vec!["tasks".to_owned()],
        };
        let unknown = InvariantReport {
            unknown: vec!["tasks".to_owned()],
            ..InvariantReport::default()
        };

        let broken = line(Invariant::Wakes, broken);
        let unknown = line(Invariant::Wakes, unknown);
        let sound = line(Invariant::Wakes, InvariantReport::default());

        assert_eq!(broken.state, State::Fail);
        assert!(
            broken.found.ends_with("and 2 more: --json names them"),
            "{broken:?}"
        );
        let deep = broken.deep.expect("a report for programs");
        assert_eq!((deep.breach_count, deep.breaches.len()), (7, 7));
        assert_eq!(unknown.state, State::Warn);
        assert_eq!(unknown.found, "not known of tasks");
        assert_eq!(sound.state, State::Ok);
    }
}
