//! Duplicates, held deliveries and deliveries that were refused.

use semel_api::types::{Duplicate, RefusedDelivery};

use crate::style::{Style, Tone, cell, render, toned_cell};
use crate::text::ago;

/// Repeats that were stopped.
pub(crate) fn table(duplicates: &[Duplicate], style: Style) -> String {
    let mut table = style.table(&["RUN", "LAST", "COUNT", "VERDICT", "AT", "FLOW", "KEY"]);
    for duplicate in duplicates {
        let tone = match duplicate.verdict.as_str() {
            "repeat" => Tone::Plain,
            _ => Tone::Odd,
        };
        table.add_row([
            cell(duplicate.run.to_string()),
            cell(ago(duplicate.last_at)),
            cell(duplicate.count.to_string()),
            toned_cell(tone, &duplicate.verdict),
            cell(&duplicate.stopped_by),
            cell(duplicate.flow.as_deref().unwrap_or("-")),
            cell(key_of(duplicate)),
        ]);
    }
    render(&table)
}

/// The key of a repeat, and what came too late where that is why it was stopped.
fn key_of(duplicate: &Duplicate) -> String {
    let key = duplicate.key.as_deref().unwrap_or("-");
    match &duplicate.order {
        Some(late) => format!(
            "{key} ({} of {}, {} was accepted)",
            late.version, late.object, late.newest
        ),
        None => key.to_owned(),
    }
}

/// Deliveries that are held.
pub(crate) fn held(duplicates: &[Duplicate], style: Style) -> String {
    let header = ["DELIVERY", "LAST", "COUNT", "WHY", "FLOW", "CAME AS", "RUN"];
    let mut table = style.table(&header);
    for held in duplicates {
        let id = held.duplicate.map(|id| id.to_string());
        table.add_row([
            cell(id.as_deref().unwrap_or("-")),
            cell(ago(held.last_at)),
            cell(held.count.to_string()),
            toned_cell(Tone::Odd, why(held)),
            cell(held.flow.as_deref().unwrap_or("-")),
            cell(held.came_as.as_deref().unwrap_or("-")),
            cell(held.run.to_string()),
        ]);
    }
    render(&table)
}

/// Why a delivery is held.
fn why(held: &Duplicate) -> String {
    let why = match held.stopped_by.as_str() {
        "replay" => "same signed body, another key",
        _ => "same key, another payload",
    };
    match &held.decision {
        Some(made) => format!(
            "{why}; {} accepted it as {}, run not made yet",
            made.by,
            made.key.as_deref().unwrap_or("-")
        ),
        None => why.to_owned(),
    }
}

/// Deliveries that were refused.
pub(crate) fn refused(refused: &[RefusedDelivery], style: Style) -> String {
    let mut table = style.table(&["AT", "FLOW", "CODE", "WHAT WAS WRONG"]);
    for one in refused {
        table.add_row([
            cell(ago(one.at)),
            cell(&one.flow),
            toned_cell(Tone::Odd, &one.code),
            cell(one.message.as_deref().unwrap_or("-")),
        ]);
    }
    render(&table)
}
