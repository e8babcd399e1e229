//! Schedules and their ticks.

use semel_api::types::{Schedule, Tick, TickVerdict};

use crate::style::{Style, Tone, cell, render, toned_cell};
use crate::text::{ago, printable};

/// When a schedule is due next.
pub(crate) fn next(one: &Schedule) -> String {
    match (one.paused_at, one.next) {
        (Some(since), _) => {
            let by = one.paused_by.as_deref().map(printable);
            let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
            format!("paused{by}, {}", ago(since))
        }
        (None, Some(next)) => format!("{next} ({})", ago(next)),
        (None, None) => "never".to_owned(),
    }
}

/// What happened to its latest instant.
pub(crate) fn latest(one: &Schedule) -> String {
    let Some(tick) = &one.latest else {
        return "-".to_owned();
    };
    let at = tick.last.unwrap_or(tick.nominal);
    format!("{} {}", tick.verdict.as_str(), ago(at))
}

/// Ticks of one schedule.
pub(crate) fn table(ticks: &[Tick], style: Style) -> String {
    let mut table = style.table(&["INSTANT", "VERDICT", "WHY", "RUN", "DECIDED"]);
    for tick in ticks {
        let tone = match tick.verdict {
            TickVerdict::Fired => Tone::Good,
            TickVerdict::Skipped => Tone::Odd,
        };
        table.add_row([
            cell(instants(tick)),
            toned_cell(tone, tick.verdict.as_str()),
            cell(why(tick)),
            cell(
                tick.run
                    .map_or_else(|| "-".to_owned(), |run| run.to_string()),
            ),
            cell(ago(tick.decided_at)),
        ]);
    }
    render(&table)
}

fn instants(tick: &Tick) -> String {
    match tick.last {
        Some(last) => format!("{} to {last} ({})", tick.nominal, tick.instants),
        None => tick.nominal.to_string(),
    }
}

fn why(tick: &Tick) -> String {
    match (&tick.reason, &tick.fired_by) {
        (Some(reason), _) => printable(reason),
        (None, Some(by)) => format!("by hand: {}", printable(by)),
        (None, None) => "-".to_owned(),
    }
}
