//! Reconcile passes for people.

use semel_api::types::{PassItem, ReconcilePass, ReconcilePassDetail};

use crate::style::{Style, Tone, cell, render, toned_cell};
use crate::text::printable;

const HEADER: [&str; 9] = [
    "PASS",
    "STATE",
    "PAGES",
    "LISTED",
    "KNOWN",
    "STARTED",
    "DIFFERING",
    "UNREADABLE",
    "LEFT OUT",
];

/// Passes, one line each.
pub(crate) fn table(passes: &[ReconcilePass], style: Style) -> String {
    let mut table = style.table(&HEADER);
    for pass in passes {
        let dry = if pass.dry_run { " (dry run)" } else { "" };
        let tone = match pass.state.as_str() {
            "done" => Tone::Good,
            "failed" => Tone::Bad,
            _ => Tone::Plain,
        };
        table.add_row([
            cell(pass.nominal.to_string()),
            toned_cell(tone, format!("{}{dry}", pass.state)),
            cell(pass.pages.to_string()),
            cell(pass.listed.to_string()),
            cell(pass.known.to_string()),
            cell(pass.started.to_string()),
            cell(pass.differing.to_string()),
            cell(pass.unreadable.to_string()),
            cell(pass.left_out.to_string()),
        ]);
    }
    render(&table)
}

/// A pass and its items.
pub(crate) fn tell(found: &ReconcilePassDetail, style: Style) -> String {
    let mut parts = vec![table(std::slice::from_ref(&found.pass), style)];
    if let Some(fault) = &found.pass.fault {
        parts.push(format!("last fault: {}", printable(fault)));
    }
    if !found.items.is_empty() {
        parts.push(items(&found.items, style));
    }
    parts.join("\n\n")
}

fn items(items: &[PassItem], style: Style) -> String {
    let mut table = style.table(&["ITEM", "KEY", "RUN", "NOTE"]);
    for item in items {
        let run = item.run.map_or_else(String::new, |run| run.to_string());
        table.add_row([
            cell(&item.verdict),
            cell(item.key.as_deref().unwrap_or("none")),
            cell(run),
            cell(item.note.as_deref().unwrap_or_default()),
        ]);
    }
    render(&table)
}
