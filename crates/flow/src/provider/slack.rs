//! Slack's Events API.

use super::signature::FIVE_MINUTES;
use super::{
    Challenge, Encoding, PresetPart, PresetScheme, PresetSent, PresetSentAt, PresetSignature,
    Provider, Source, Unit, days,
};

/// The preset.
pub(super) const PRESET: Provider = Provider {
    name: "slack",
    title: "Slack",
    key: "input.event_id",
    key_source: Source::Body,
    signature: Some(PresetSignature {
        header: "x-slack-signature",
        separator: None,
        schemes: &[PresetScheme::sha256("v0=", Encoding::Hex)],
        signed: &[
            PresetPart::Text("v0:"),
            PresetPart::Sent,
            PresetPart::Text(":"),
            PresetPart::Body,
        ],
        id_header: None,
        sent: Some(PresetSent {
            at: PresetSentAt::Header("x-slack-request-timestamp"),
            unit: Unit::Seconds,
            tolerance: FIVE_MINUTES,
        }),
    }),
    covers_headers: &["x-slack-request-timestamp"],
    // Six minutes by default; a day where an app opted in to delayed events.
    redelivery: Some(days(1)),
    // What an event is about stands elsewhere in each kind of event.
    order: None,
    clock_fields: &[],
    challenge: Some(Challenge::UrlVerification),
};
