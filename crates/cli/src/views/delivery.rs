//! Deliveries of events.

use semel_api::types::{Delivery, DeliveryState};

use super::maybe_ago;
use crate::style::{Style, Tone, cell, render, toned_cell};
use crate::text::ago;

const fn tone(state: DeliveryState) -> Tone {
    match state {
        DeliveryState::Due => Tone::Plain,
        DeliveryState::Delivered => Tone::Good,
        DeliveryState::Failed => Tone::Bad,
    }
}

/// Deliveries of one subscription.
pub(crate) fn table(deliveries: &[Delivery], style: Style) -> String {
    let header = [
        "ID", "EMITTED", "EVENT", "STATE", "ATTEMPTS", "NEXT", "NOTE",
    ];
    let mut table = style.table(&header);
    for delivery in deliveries {
        table.add_row([
            cell(delivery.id.to_string()),
            cell(ago(delivery.emitted_at)),
            cell(&delivery.event),
            toned_cell(tone(delivery.state), delivery.state.as_str()),
            cell(delivery.attempt.to_string()),
            cell(maybe_ago(delivery.due_at)),
            cell(delivery.note.as_deref().unwrap_or("-")),
        ]);
    }
    render(&table)
}
