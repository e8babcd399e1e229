//! `trigger`.

use semel_model::{FlowName, Mismatch};

use super::fields::Fields;
use super::names::{Names, Place, StepNames};
use super::{Reader, optional};
use crate::diagnostic::Code;
use crate::release::{Start, Triggers, Webhook, WebhookAuth};
use crate::yaml::Node;

const MISMATCHES: [(&str, Mismatch); 3] = [
    ("reject", Mismatch::Reject),
    ("accept", Mismatch::Accept),
    ("quarantine", Mismatch::Quarantine),
];

impl Reader<'_> {
    pub(super) fn triggers(&mut self, node: &Node, flow: Option<&FlowName>) -> Option<Triggers> {
        let steps = StepNames::default();
        let names = Names {
            place: Place::Trigger,
            steps: &steps,
            behind: 0,
        };
        let mut fields = self.fields(node, "`trigger`")?;
        let webhook = fields
            .find("webhook")
            .map(|node| self.webhook(node, flow, names));
        let api = fields
            .find("api")
            .map(|node| self.start(node, "`api`", names));
        let manual = fields
            .find("manual")
            .map(|node| self.start(node, "`manual`", names));
        self.finish(&fields);
        if webhook.is_none() && api.is_none() && manual.is_none() {
            let message = "a flow needs at least one way to start";
            let help = "add `api: {}`, `manual: {}` or a `webhook`";
            self.report(Code::MissingField, node.span.clone(), message, help);
            return None;
        }
        Some(Triggers {
            webhook: optional(webhook)?,
            api: optional(api)?,
            manual: optional(manual)?,
        })
    }

    fn webhook(
        &mut self,
        node: &Node,
        flow: Option<&FlowName>,
        names: Names<'_>,
    ) -> Option<Webhook> {
        let mut fields = self.fields(node, "`webhook`")?;
        let path = match fields.find("path") {
            Some(node) => self.path(node),
            None => flow.map(ToString::to_string),
        };
        let auth = self.need(&mut fields, "auth", "none");
        let auth = auth.and_then(|node| self.auth(node));
        let key = self.need(&mut fields, "key", "input.id");
        let key = key.and_then(|node| self.key(node, names));
        let when = fields
            .find("when")
            .map(|node| self.condition(node, "when", names));
        let mismatch = self.mismatch(&mut fields);
        self.finish(&fields);
        Some(Webhook {
            path: path?,
            auth: auth?,
            key: key?,
            when: optional(when)?,
            mismatch: mismatch?,
        })
    }

    fn start(&mut self, node: &Node, what: &'static str, names: Names<'_>) -> Option<Start> {
        let mut fields = self.fields(node, what)?;
        let key = fields.find("key").map(|node| self.key(node, names));
        let mismatch = self.mismatch(&mut fields);
        self.finish(&fields);
        Some(Start {
            key: optional(key)?,
            mismatch: mismatch?,
        })
    }

    /// The last part of the hook's address: a name, so that it needs no escaping anywhere.
    fn path(&mut self, node: &Node) -> Option<String> {
        let help = "write a name such as `orders`: the address is /hooks/NAMESPACE/NAME";
        let name: FlowName = self.parsed(node, "path", help)?;
        Some(name.to_string())
    }

    fn auth(&mut self, node: &Node) -> Option<WebhookAuth> {
        let text = self.text(node, "auth")?;
        if text == "none" {
            return Some(WebhookAuth::None);
        }
        let message = format!("`auth` cannot be `{text}`");
        let help = "write `auth: none`: signatures cannot be checked yet, so guard the address";
        self.report(Code::WrongValue, node.span.clone(), &message, help);
        None
    }

    fn mismatch(&mut self, fields: &mut Fields<'_>) -> Option<Mismatch> {
        match fields.find("mismatch") {
            Some(node) => self.choice(node, "mismatch", &MISMATCHES),
            None => Some(Mismatch::Reject),
        }
    }
}
