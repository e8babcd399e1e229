//! The fields of a map: each is asked for by name, and what nobody asked for is a mistake.

use std::ops::Range;

use super::Reader;
use crate::diagnostic::Code;
use crate::nearest::nearest;
use crate::yaml::{Entry, Kind, Node};

/// The fields of one map while it is read.
pub(super) struct Fields<'n> {
    /// What the map is, for messages: "a step", "`http`".
    what: &'static str,
    /// The place that stands for the whole map.
    pub(super) span: Range<usize>,
    entries: &'n [Entry],
    known: Vec<&'static str>,
}

impl<'n> Fields<'n> {
    /// The value of a field, which is from now on known to exist.
    pub(super) fn find(&mut self, name: &'static str) -> Option<&'n Node> {
        self.known.push(name);
        self.entries
            .iter()
            .find(|entry| entry.key == name)
            .map(|entry| &entry.value)
    }

    /// The place of a field's name.
    pub(super) fn name_span(&self, name: &str) -> Range<usize> {
        let entry = self.entries.iter().find(|entry| entry.key == name);
        entry.map_or_else(|| self.span.clone(), |entry| entry.key_span.clone())
    }
}

impl Reader<'_> {
    /// The fields of a node that must be a map.
    pub(super) fn fields<'n>(&mut self, node: &'n Node, what: &'static str) -> Option<Fields<'n>> {
        match &node.kind {
            Kind::Map(entries) => {
                let first = entries.first().map(|entry| entry.key_span.clone());
                let span = first.unwrap_or_else(|| node.span.clone());
                Some(Fields {
                    what,
                    span,
                    entries,
                    known: vec![],
                })
            }
            Kind::Scalar(scalar) if scalar.text.is_empty() => Some(Fields {
                what,
                span: node.span.clone(),
                entries: &[],
                known: vec![],
            }),
            Kind::Scalar(_) | Kind::List(_) => {
                let message = format!("{what} is a map, not {}", node.kind_name());
                let help = "write `name: value` lines below it";
                self.report(Code::WrongType, node.span.clone(), &message, help);
                None
            }
        }
    }

    /// A field without which nothing can be read.
    pub(super) fn need<'n>(
        &mut self,
        fields: &mut Fields<'n>,
        name: &'static str,
        example: &str,
    ) -> Option<&'n Node> {
        let found = fields.find(name);
        if found.is_none() {
            let message = format!("{} needs `{name}`", fields.what);
            let help = format!("add `{name}: {example}`");
            self.report(Code::MissingField, fields.span.clone(), &message, &help);
        }
        found
    }

    /// Reports the fields that nobody asked for.
    pub(super) fn finish(&mut self, fields: &Fields<'_>) {
        for entry in fields.entries {
            let name = entry.key.as_str();
            if fields.known.contains(&name) {
                continue;
            }
            let message = format!("{} has no field `{name}`", fields.what);
            let help = match nearest(name, fields.known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("its fields: {}", fields.known.join(", ")),
            };
            self.report(Code::UnknownField, entry.key_span.clone(), &message, &help);
        }
    }
}
