//! What no table can say about a webhook.

use std::ops::Range;

use super::provider_of;
use crate::diagnostic::{Code, Report};
use crate::provider::PresetSignature;
use crate::steps::http::is_header_name;
use crate::tree::Record;

pub(super) fn check(report: &mut Report<'_>, webhook: &Record) {
    let provided = webhook.has("provider");
    if !provided && !webhook.has("key") {
        let message = "`webhook` needs `key`";
        let help = "add `key: input.id`, or a `provider` that has one";
        report.add(Code::MissingField, webhook.span.clone(), message, help);
    }
    let open = webhook.word("auth") == Some("none");
    let named = provider_of(webhook);
    let signs = named.is_some_and(|provider| provider.signature.is_some());
    let unsigned = named.is_some_and(|provider| provider.signature.is_none());
    if (!provided || unsigned) && !webhook.has("auth") {
        let message = match named {
            Some(provider) => format!("{} does not say how it signs", provider.title),
            None => "`webhook` needs `auth`".to_owned(),
        };
        let help = "add `auth: none` if anyone may deliver, `auth: { hmac: … }`, or a `provider` that signs";
        report.add(Code::MissingField, webhook.span.clone(), &message, help);
    }
    let checked = webhook.map("auth").is_some() || (signs && !webhook.has("auth"));
    if checked && !webhook.has("secret") {
        let message = "a signature is checked with a secret, and none is named";
        let help = "add `secret: NAME`, and set its value with `semel secret set NAME`";
        let field = if provided { "provider" } else { "auth" };
        report.add(Code::MissingField, webhook.name_span(field), message, help);
    }
    if open && webhook.has("secret") {
        let message = "nothing is checked with this secret: `auth` is `none`";
        let help = "leave `secret` out, or say how a delivery is signed";
        report.add(
            Code::FieldConflict,
            webhook.name_span("secret"),
            message,
            help,
        );
    }
    if webhook.has("within") && !webhook.has("respond") {
        let message = "`within` limits how long a response is held, and this one is not";
        let help = "add `respond: result`, or leave `within` out";
        let span = webhook.name_span("within");
        report.add(Code::FieldConflict, span, message, help);
    }
    let settles = named.and_then(|provider| provider.signature.as_ref());
    let settles = settles.is_none_or(PresetSignature::settles_payload);
    if !settles && !webhook.has("auth") && webhook.word("replay") == Some("accept") {
        let message = "this source signs fields with nothing between them, so one signed text has \
                       many readings: replays are always held";
        let help = "leave `replay` out";
        let span = webhook.name_span("replay");
        report.add(Code::FieldConflict, span, message, help);
    }
    if let Some(auth) = webhook.map("auth") {
        auth_headers(report, auth);
    }
}

/// Headers that a delivery is proven by must be such as can arrive.
fn auth_headers(report: &mut Report<'_>, auth: &Record) {
    let fields = [
        (auth.map("hmac"), "header"),
        (auth.map("hmac"), "timestamp"),
        (auth.map("token"), "header"),
    ];
    let mut names: Vec<(String, Range<usize>)> = vec![];
    for (record, field) in fields {
        let Some(record) = record else { continue };
        let name = record.text(field).map(str::to_owned);
        names.extend(name.map(|name| (name, record.value_span(field))));
    }
    if let Some(hmac) = auth.map("hmac") {
        let span = hmac.value_span("covers");
        let covered = hmac.list("covers").iter();
        let texts = covered.filter_map(|item| item.value.as_text());
        names.extend(texts.map(|name| (name.to_owned(), span.clone())));
    }
    for (name, span) in names {
        if !is_header_name(&name) {
            let message = format!("`{name}` is not a valid header name");
            report.add(Code::HeaderInvalid, span, &message, "write `x-signature`");
        }
    }
}
