//! Single values: texts, names, spans, counts, choices.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use semel_model::Span;
use serde_json::{Map, Value};

use super::Reader;
use crate::diagnostic::Code;
use crate::nearest::nearest;
use crate::yaml::{Kind, Node, Plain, Style, plain};

impl Reader<'_, '_> {
    /// The text of a scalar, as written: `no` is `no`.
    pub(super) fn text<'n>(&mut self, node: &'n Node, field: &str) -> Option<&'n str> {
        match node.as_scalar() {
            Some(scalar) if scalar.style != Style::Plain || !scalar.text.is_empty() => {
                Some(&scalar.text)
            }
            _ => {
                self.wrong_type(node, field, "text");
                None
            }
        }
    }

    /// A text that parses into a noun of the model.
    pub(super) fn parsed<T>(&mut self, node: &Node, field: &str, help: &str) -> Option<T>
    where
        T: FromStr,
        T::Err: Display,
    {
        let text = self.text(node, field)?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                let message = format!("`{text}` is not a valid `{field}`: {error}");
                self.report(Code::WrongValue, node.span.clone(), &message, help);
                None
            }
        }
    }

    /// A span within bounds.
    pub(super) fn span(
        &mut self,
        node: &Node,
        field: &str,
        bounds: RangeInclusive<Span>,
    ) -> Option<Span> {
        let span: Span = self.parsed(node, field, "write a span such as `30s`, `5m` or `2d`")?;
        if bounds.contains(&span) {
            return Some(span);
        }
        let message = format!("`{field}` cannot be {span}");
        let help = format!("choose a span from {} to {}", bounds.start(), bounds.end());
        self.report(Code::WrongValue, node.span.clone(), &message, &help);
        None
    }

    /// A whole number within bounds.
    pub(super) fn whole(
        &mut self,
        node: &Node,
        field: &str,
        bounds: RangeInclusive<i64>,
    ) -> Option<i64> {
        let text = self.text(node, field)?;
        let number = text.parse().ok().filter(|number| bounds.contains(number));
        if number.is_none() {
            let message = format!("`{field}` cannot be `{text}`");
            let help = format!(
                "write a whole number from {} to {}",
                bounds.start(),
                bounds.end()
            );
            self.report(Code::WrongValue, node.span.clone(), &message, &help);
        }
        number
    }

    pub(super) fn truth(&mut self, node: &Node, field: &str) -> Option<bool> {
        self.choice(node, field, &[("true", true), ("false", false)])
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(
        &mut self,
        node: &Node,
        field: &str,
        words: &[(&str, T)],
    ) -> Option<T> {
        let text = self.text(node, field)?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let message = format!("`{field}` cannot be `{text}`");
        let help = match nearest(text, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("choose one of: {}", known.join(", ")),
        };
        self.report(Code::WrongValue, node.span.clone(), &message, &help);
        None
    }

    /// Any value, with YAML 1.2's core types.
    pub(super) fn value(&mut self, node: &Node) -> Option<Value> {
        match &node.kind {
            Kind::Scalar(scalar) if scalar.style == Style::Plain => self.plain(node, &scalar.text),
            Kind::Scalar(scalar) => Some(Value::from(scalar.text.as_str())),
            Kind::List(items) => {
                let items: Vec<_> = items.iter().map(|item| self.value(item)).collect();
                items.into_iter().collect::<Option<_>>().map(Value::Array)
            }
            Kind::Map(entries) => {
                let fields: Vec<_> = entries
                    .iter()
                    .map(|entry| Some((entry.key.clone(), self.value(&entry.value)?)))
                    .collect();
                fields
                    .into_iter()
                    .collect::<Option<Map<_, _>>>()
                    .map(Value::Object)
            }
        }
    }

    pub(super) fn plain(&mut self, node: &Node, text: &str) -> Option<Value> {
        match plain(text) {
            Plain::Value(value) => Some(value),
            Plain::Inexact(read) => {
                let message = format!("`{text}` would be read as {read}");
                let help = format!("put it in quotes if text is meant: \"{text}\"");
                self.report(Code::NumberInexact, node.span.clone(), &message, &help);
                None
            }
        }
    }
}
