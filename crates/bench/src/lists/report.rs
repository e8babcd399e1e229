//! The page of figures: what every list, look-up and page costs.

use std::fmt::Write as _;

use super::statements::Cost;

/// What no page may exceed.
const P95_MS_MAX: f64 = 100.0;
const STATEMENTS_MAX: u64 = 6;
const BUFFERS_MAX: u64 = 2_000;

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
}
