//! Twilio's callbacks for messages and calls.

use super::{
    Algorithm, Encoding, PresetPart, PresetScheme, PresetSignature, Provider, SecretEncoding,
    Source, days,
};

/// The preset.
pub(super) const PRESET: Provider = Provider {
    name: "twilio",
    title: "Twilio",
    // The token in `I-Twilio-Idempotency-Token` is not signed. These fields are, though not where one
    // ends and the next begins: so the signed text is remembered, too.
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
    challenge: None,
};
