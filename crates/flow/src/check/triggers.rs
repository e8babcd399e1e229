//! What no table can say about triggers.

use std::ops::Range;

use super::Check;
use super::steps::is_header_name;
use crate::diagnostic::Code;
use crate::schedule::{Cron, Flaw};
use crate::tree::Record;

impl Check<'_, '_, '_> {
    pub(super) fn triggers(&mut self) {
        let Some(trigger) = self.outline.flow.map("trigger") else {
            return;
        };
        if trigger.fields.is_empty() {
            let message = "a flow needs at least one way to start";
            let help = "add `api: {}`, `manual: {}`, a `webhook`, a `schedule` or an `event`";
            let span = self.outline.flow.value_span("trigger");
            self.add(Code::MissingField, span, message, help);
        }
        if let Some(webhook) = trigger.map("webhook") {
            self.webhook(webhook);
        }
        if let Some(schedule) = trigger.map("schedule") {
            self.schedule(schedule);
        }
    }

    fn webhook(&mut self, webhook: &Record) {
        let provided = webhook.has("provider");
        if !provided && !webhook.has("key") {
            let message = "`webhook` needs `key`";
            let help = "add `key: input.id`, or a `provider` that brings one";
            self.add(Code::MissingField, webhook.span.clone(), message, help);
        }
        let open = webhook.word("auth") == Some("none");
        let named = webhook.text("provider").and_then(crate::provider::find);
        let signs = named.is_some_and(|provider| provider.signature.is_some());
        let unsigned = named.is_some_and(|provider| provider.signature.is_none());
        if (!provided || unsigned) && !webhook.has("auth") {
            let message = match named {
                Some(provider) => format!("{} does not say how it signs", provider.title),
                None => "`webhook` needs `auth`".to_owned(),
            };
            let help = "add `auth: none` where anybody may deliver, `auth: { hmac: … }`, or a `provider` that signs";
            self.add(Code::MissingField, webhook.span.clone(), &message, help);
        }
        let checked = webhook.map("auth").is_some() || (signs && !webhook.has("auth"));
        if checked && !webhook.has("secret") {
            let message = "a signature is checked with a secret, and none is named";
            let help = "add `secret: NAME`, and keep its value with `semel secret set NAME`";
            let field = if provided { "provider" } else { "auth" };
            self.add(Code::MissingField, webhook.name_span(field), message, help);
        }
        if open && webhook.has("secret") {
            let message = "nothing is checked with this secret: `auth` is `none`";
            let help = "leave `secret` out, or say how a delivery is signed";
            self.add(
                Code::FieldConflict,
                webhook.name_span("secret"),
                message,
                help,
            );
        }
        if let Some(auth) = webhook.map("auth") {
            self.auth_headers(auth);
        }
    }

    /// Headers that a delivery is proven by must be such as can arrive.
    fn auth_headers(&mut self, auth: &Record) {
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
                let message = format!("`{name}` is no name of a header");
                self.add(Code::HeaderInvalid, span, &message, "write `x-signature`");
            }
        }
    }

    fn schedule(&mut self, schedule: &Record) {
        let zone = schedule.word("zone").unwrap_or("UTC");
        if let Some(cron) = schedule.text("cron")
            && !schedule.has("every")
            && let Err(problem) = Cron::parse(cron, zone)
        {
            let span = match problem.flaw {
                Flaw::Zone => schedule.value_span("zone"),
                Flaw::Pattern => schedule.value_span("cron"),
                Flaw::Field(field) => self.within(schedule.value_span("cron"), cron, field),
            };
            let (message, help) = (&problem.message, &problem.help);
            self.add(Code::ScheduleInvalid, span, message, help);
        }
        if schedule.has("zone") && schedule.has("every") {
            let message = "`zone` is for `cron`";
            let span = schedule.name_span("zone");
            self.add(Code::FieldConflict, span, message, "leave it out");
        }
        if schedule.has("most") && schedule.word("missed") != Some("all") {
            let message = "`most` is for `missed: all`";
            let help = "leave it out, or write `missed: all`";
            let span = schedule.name_span("most");
            self.add(Code::FieldConflict, span, message, help);
        }
    }

    /// The bytes of the file behind a part of a text that stands there as it is.
    fn within(&self, whole: Range<usize>, text: &str, part: Range<usize>) -> Range<usize> {
        let written = self.report.source.get(whole.clone());
        match written.and_then(|written| written.find(text)) {
            Some(begin) => {
                let begin = whole.start + begin;
                begin + part.start..begin + part.end
            }
            None => whole,
        }
    }
}
