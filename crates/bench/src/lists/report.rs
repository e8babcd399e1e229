//! The page of figures: what every list, look-up and page costs.

use std::fmt::Write as _;

use super::own_work::{CAPACITY, StatementCost, WATCHED};
use super::statements::Cost;

/// What no page may exceed.
const P95_MS_MAX: f64 = 100.0;
const STATEMENTS_MAX: u64 = 6;
const BUFFERS_MAX: u64 = 2_000;

/// What no statement of the server's own work may take on average.
const MEAN_MS_MAX: f64 = 50.0;

/// Statements that never took so long are only counted.
const SHOWN_MS_MIN: f64 = 5.0;

/// What was measured of one address.
pub(super) struct Line {
    pub(super) shown: String,
    pub(super) p50_ms: f64,
    pub(super) p95_ms: f64,
    pub(super) bytes: usize,
    pub(super) cost: Cost,
}

impl Line {
    /// Which limits it exceeds.
    pub(super) fn over(&self) -> Vec<&'static str> {
        let limits = [
            (self.p95_ms > P95_MS_MAX, "time"),
            (self.cost.statements > STATEMENTS_MAX, "statements"),
            (self.cost.buffers > BUFFERS_MAX, "buffers"),
        ];
        let over = limits.into_iter().filter(|(is_over, _)| *is_over);
        over.map(|(_, what)| what).collect()
    }
}

/// What the database holds.
pub(super) struct Size {
    pub(super) runs: i64,
    pub(super) effects: i64,
    pub(super) duplicates: i64,
    pub(super) bytes: i64,
    pub(super) calls: usize,
}

/// The page.
pub(super) fn page(size: &Size, lines: &[Line]) -> String {
    let over = lines.iter().filter(|line| !line.over().is_empty()).count();
    let mut text = format!(
        "# Lists at size\n\n\
         `semel-bench lists` against a database that `semel-bench fill` made: about {} runs, {} effects, {} duplicates,\n\
         {:.1} GB. Every `GET` of the API that reads the database and every page of the console, one at a time, warm, {} calls\n\
         each, on {} cores that the server, PostgreSQL and the tool share{}.\n\n\
         The limits: p95 {P95_MS_MAX} ms, {STATEMENTS_MAX} statements, {BUFFERS_MAX} buffers of 8 KiB. {} of {} are over one of them.\n\n\
         | address | p50 ms | p95 ms | statements | buffers | KiB | over |\n\
         |---|---:|---:|---:|---:|---:|---|\n",
        size.runs,
        size.effects,
        size.duplicates,
        size.bytes as f64 / f64::from(1 << 30),
        size.calls,
        std::thread::available_parallelism().map_or(0, usize::from),
        if cfg!(debug_assertions) {
            " (development build)"
        } else {
            ""
        },
        over,
        lines.len(),
    );
    for line in lines {
        let shown = line.shown.replace('|', "\\|");
        // A String takes whatever is written to it.
        let _ = writeln!(
            text,
            "| `{shown}` | {:.1} | {:.1} | {} | {} | {:.1} | {} |",
            line.p50_ms,
            line.p95_ms,
            line.cost.statements,
            line.cost.buffers,
            line.bytes as f64 / 1024.0,
            line.over().join(", "),
        );
    }
    text
}

/// Which limit a statement of the server's own work exceeds.
pub(super) fn over(cost: &StatementCost) -> &'static str {
    match cost.mean_ms > MEAN_MS_MAX {
        true => "time",
        false => "",
    }
}

/// What the server's own work takes.
pub(super) fn of_own_work(costs: &[StatementCost]) -> String {
    let over_count = costs.iter().filter(|cost| !over(cost).is_empty()).count();
    let mut text = format!(
        "\n## The server's own work\n\n\
         A server that has just started, its services and {CAPACITY} workers, watched for {} s by `pg_stat_statements`: {} statements, of\n\
         which {over_count} take more than {MEAN_MS_MAX} ms on average. Those that took {SHOWN_MS_MIN} ms at least once:\n\n\
         | statement | calls | mean ms | most ms | rows | buffers a call | over |\n\
         |---|---:|---:|---:|---:|---:|---|\n",
        WATCHED.as_secs(),
        costs.len(),
    );
    for cost in costs.iter().filter(|cost| cost.max_ms >= SHOWN_MS_MIN) {
        let statement = cost.text.replace('|', "\\|").replace('`', "");
        // A String takes whatever is written to it.
        let _ = writeln!(
            text,
            "| `{statement}` | {} | {:.1} | {:.1} | {} | {} | {} |",
            cost.calls,
            cost.mean_ms,
            cost.max_ms,
            cost.rows,
            cost.buffers,
            over(cost),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(p95_ms: f64, statements: u64, buffers: u64) -> Line {
        Line {
            shown: "/v1/runs".to_owned(),
            p50_ms: 1.0,
            p95_ms,
            bytes: 10,
            cost: Cost {
                statements,
                buffers,
                costliest: String::new(),
            },
        }
    }

    #[test]
    fn a_line_over_a_limit_says_which() {
        assert!(line(100.0, 6, 2_000).over().is_empty());
        assert_eq!(
            line(100.1, 7, 2_001).over(),
            ["time", "statements", "buffers"]
        );
    }

    #[test]
    fn what_takes_long_is_shown_and_what_takes_too_long_on_average_is_marked() {
        let cost = |mean_ms, max_ms, text: &str| StatementCost {
            calls: 3,
            mean_ms,
            max_ms,
            rows: 1,
            buffers: 8,
            text: text.to_owned(),
        };
        let page = of_own_work(&[
            cost(60.0, 90.0, "SELECT slow"),
            cost(1.0, 6.0, "SELECT a || b"),
            cost(1.0, 2.0, "SELECT quick"),
        ]);

        assert!(
            page.contains("3 statements, of\nwhich 1 take more"),
            "{page}"
        );
        assert!(
            page.contains("| `SELECT slow` | 3 | 60.0 | 90.0 | 1 | 8 | time |"),
            "{page}"
        );
        assert!(
            page.contains("| `SELECT a \\|\\| b` | 3 | 1.0 | 6.0 | 1 | 8 |  |"),
            "{page}"
        );
        assert!(!page.contains("quick"), "{page}");
    }
}
