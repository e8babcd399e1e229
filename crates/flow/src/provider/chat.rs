//! Sources that carry messages: Slack and Twilio.

use super::signature::FIVE_MINUTES;
use super::{
    Algorithm, Encoding, PresetPart, PresetScheme, PresetSent, PresetSentAt, PresetSignature,
    Provider, SecretEncoding, Source, Unit, days,
};

/// Slack's Events API.
pub(super) const SLACK: Provider = Provider {
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
};

/// Twilio's callbacks for messages and calls.
pub(super) const TWILIO: Provider = Provider {
    name: "twilio",
    title: "Twilio",
    // The token in `I-Twilio-Idempotency-Token` is not signed; these fields are.
    key: concat!(
        r#"default(input.MessageSid, input.CallSid) + "/" + "#,
        r#"default(input.MessageStatus, default(input.CallStatus, input.SmsStatus))"#,
    ),
    key_source: Source::Body,
    signature: Some(PresetSignature {
        header: "x-twilio-signature",
        separator: None,
        schemes: &[PresetScheme {
            prefix: "",
            algorithm: Algorithm::HmacSha1,
            encoding: Encoding::Base64,
            secret: SecretEncoding::Text,
        }],
        signed: &[PresetPart::Url, PresetPart::FormSorted],
        id_header: None,
        sent: None,
    }),
    covers_headers: &[],
    // Fifteen seconds are documented. A signature without a time stays good for ever, so the key
    // is to be remembered for longer.
    redelivery: Some(days(1)),
    order: None,
    clock_fields: &[],
};
