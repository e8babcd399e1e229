//! Entries of `kv`.

use semel_api::types::Entry;

use crate::style::{Style, cell, render};
use crate::text::{ago, printable};

/// A line to each.
pub(crate) fn table(entries: &[Entry], style: Style) -> String {
    let mut table = style.table(&["ENTRY", "VERSION", "EXPIRES"]);
    for entry in entries {
        let expires = entry.expires_at.map_or_else(|| "never".to_owned(), ago);
        table.add_row([
            cell(printable(&entry.entry)),
            cell(entry.version.to_string()),
            cell(expires),
        ]);
    }
    render(&table)
}
