//! `kv` steps.

use semel_model::{Guard, Span};

use super::Reader;
use super::control::year;
use super::fields::Fields;
use super::names::Names;
use crate::diagnostic::Code;
use crate::release::{KvStep, KvVerb};
use crate::yaml::Node;

const VERBS: [&str; 4] = ["get", "set", "add", "delete"];

impl Reader<'_> {
    pub(super) fn kv(
        &mut self,
        node: &Node,
        step: &mut Fields<'_>,
        names: Names<'_>,
    ) -> Option<KvStep> {
        let guard = step.find("guard");
        let mut fields = self.fields(node, "`kv`")?;
        let found: Vec<(&'static str, &Node)> = VERBS
            .into_iter()
            .filter_map(|verb| Some((verb, fields.find(verb)?)))
            .collect();
        let [(verb, entry)] = found.as_slice() else {
            let message = "`kv` does one of get, set, add and delete";
            let help = "write `get: name`, `set: name`, `add: name` or `delete: name`";
            let code = if found.is_empty() {
                Code::MissingField
            } else {
                Code::FieldConflict
            };
            self.report(code, fields.span.clone(), message, help);
            return None;
        };
        let entry = self.text_template(entry, verb, names);
        let read = match *verb {
            "get" => Some(KvVerb::Get),
            "set" => self.kv_set(&mut fields, names),
            "add" => self.kv_add(&mut fields),
            _ => Some(KvVerb::Delete),
        };
        self.finish(&fields);
        let kv = KvStep {
            entry: entry?,
            verb: read?,
        };
        match guard {
            Some(node) => self.kv_guard(node, &kv).then_some(kv),
            None => Some(kv),
        }
    }

    fn kv_set(&mut self, fields: &mut Fields<'_>, names: Names<'_>) -> Option<KvVerb> {
        let value = self.need(fields, "value", "…");
        let value = value.and_then(|node| self.template(node, names));
        let if_absent = fields
            .find("if_absent")
            .map_or(Some(false), |node| self.truth(node, "if_absent"));
        let ttl = self.ttl(fields);
        Some(KvVerb::Set {
            value: value?,
            if_absent: if_absent?,
            ttl: ttl?,
        })
    }

    fn kv_add(&mut self, fields: &mut Fields<'_>) -> Option<KvVerb> {
        const EXACT: i64 = (1 << 53) - 1;
        let by = fields
            .find("by")
            .map_or(Some(1), |node| self.whole(node, "by", -EXACT..=EXACT));
        let ttl = self.ttl(fields);
        Some(KvVerb::Add { by: by?, ttl: ttl? })
    }

    fn ttl(&mut self, fields: &mut Fields<'_>) -> Option<Option<Span>> {
        match fields.find("ttl") {
            Some(node) => self
                .span(node, "ttl", Span::from_secs(1)..=year())
                .map(Some),
            None => Some(None),
        }
    }

    /// A guard may be said, but there is only one that fits.
    fn kv_guard(&mut self, node: &Node, kv: &KvStep) -> bool {
        let help = "write a guard such as `transaction`";
        let Some(guard) = self.parsed::<Guard>(node, "guard", help) else {
            return false;
        };
        if kv.guard() == Some(guard) {
            return true;
        }
        let (message, help) = match kv.guard() {
            Some(_) => (
                format!("a `kv` step cannot have the guard `{guard}`"),
                "leave `guard` out: its effect and its marker commit together",
            ),
            None => (
                "a read has no effect to guard".to_owned(),
                "leave `guard` out",
            ),
        };
        self.report(Code::GuardUnfit, node.span.clone(), &message, help);
        false
    }
}
