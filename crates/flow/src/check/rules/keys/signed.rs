//! What the signature of a delivery covers.

use super::super::super::Check;
use super::Key;
use crate::diagnostic::Code;
use crate::tree::{Record, Value};

impl<'t> Check<'_, 't, '_> {
    /// A part of the key that an intermediary could change without breaking the signature.
    pub(super) fn unsigned(&mut self, key: &Key<'t>) {
        if !key.hooked {
            return;
        }
        let Some(covered) = self.covered() else {
            return;
        };
        for path in key.placed.expr.references() {
            let name = path.fields.first().map(|name| name.to_ascii_lowercase());
            let unsigned = match path.root.as_str() {
                "query" => true,
                "headers" => !name.is_some_and(|name| covered.contains(&name)),
                _ => false,
            };
            if unsigned {
                let span = key.placed.path_span(self.report.source, path);
                let message = format!(
                    "the signature does not cover `{path}`: one captured delivery could be sent again under other keys"
                );
                let help = match self.provider() {
                    Some(provider) => format!("leave `key` out: {} provides `{}`", provider.title, provider.key),
                    None => "use the signed body, such as `input.id`, or name the header under `hmac.covers`".to_owned(),
                };
                self.add(Code::KeyUnsigned, span, &message, &help);
            }
        }
    }

    /// The headers that the webhook's signature covers; nothing if there is no signature.
    fn covered(&self) -> Option<Vec<String>> {
        let webhook = self.outline.flow.map("trigger")?.map("webhook")?;
        if let Some(auth) = webhook.map("auth") {
            return Some(covered_by(auth.map("hmac")?));
        }
        if webhook.has("auth") {
            return None;
        }
        let provider = self.provider()?;
        provider.signature.as_ref()?;
        let covered = provider.covers_headers.iter();
        Some(covered.map(|name| (*name).to_owned()).collect())
    }
}

fn covered_by(hmac: &Record) -> Vec<String> {
    let mut covered: Vec<String> = hmac
        .list("covers")
        .iter()
        .filter_map(|item| {
            if let Value::Text(text) = &item.value {
                Some(text.to_ascii_lowercase())
            } else {
                None
            }
        })
        .collect();
    covered.extend(hmac.text("timestamp").map(str::to_ascii_lowercase));
    covered
}
