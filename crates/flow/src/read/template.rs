//! Values and texts with holes.

use super::Reader;
use crate::expr::{Expr, ExprError};
use crate::grammar::Place;
use crate::template::{Template, TextTemplate};
use crate::tree::{Placed, Value};
use crate::yaml::{Kind, Node, Style};

impl Reader<'_, '_> {
    /// A text with holes.
    pub(super) fn holes(&mut self, node: &Node, field: &str) -> Option<Value> {
        let text = self.text(node, field)?;
        if !self.afford_holes(node, text) {
            return None;
        }
        let compiled = TextTemplate::compile_here(text, &self.roots(Place::Step));
        let template = self.compiled(node, compiled)?;
        let placed = placed(node, text, template.exprs());
        Some(Value::Holes(template, placed))
    }

    /// Any value, with holes in its texts.
    pub(super) fn template(&mut self, node: &Node) -> Option<Value> {
        let mut placed = vec![];
        // Where a hole cannot be read the others are kept, so that their names are looked at too.
        let template = self.template_of(node, &mut placed);
        let template = template.unwrap_or_else(|| Template::plain(serde_json::Value::Null));
        Some(Value::Template(template, placed))
    }

    fn template_of(&mut self, node: &Node, holes: &mut Vec<Placed>) -> Option<Template> {
        match &node.kind {
            Kind::Scalar(scalar)
                if scalar.style == Style::Plain && !scalar.text.contains("${{") =>
            {
                let value = self.plain(node, &scalar.text)?;
                match value.as_str() {
                    Some(text) => self.text_value(node, text, holes),
                    None => Some(Template::plain(value)),
                }
            }
            Kind::Scalar(scalar) => self.text_value(node, &scalar.text, holes),
            Kind::List(items) => {
                let items: Vec<_> = items
                    .iter()
                    .map(|item| self.template_of(item, holes))
                    .collect();
                items.into_iter().collect::<Option<_>>().map(Template::list)
            }
            Kind::Map(entries) => {
                let fields: Vec<_> = entries
                    .iter()
                    .map(|entry| Some((entry.key.clone(), self.template_of(&entry.value, holes)?)))
                    .collect();
                fields.into_iter().collect::<Option<_>>().map(Template::map)
            }
        }
    }

    fn text_value(&mut self, node: &Node, text: &str, holes: &mut Vec<Placed>) -> Option<Template> {
        if !self.afford_holes(node, text) {
            return None;
        }
        let compiled = Template::text(text, &self.roots(Place::Step));
        let template = self.compiled(node, compiled)?;
        holes.extend(placed(node, text, template.exprs()));
        Some(template)
    }

    fn afford_holes(&mut self, node: &Node, text: &str) -> bool {
        self.afford_exprs(node, text.matches("${{").count())
    }

    fn compiled<T>(&mut self, node: &Node, compiled: Result<T, Vec<ExprError>>) -> Option<T> {
        match compiled {
            Ok(template) => Some(template),
            Err(errors) => {
                errors.iter().for_each(|error| self.expr_error(node, error));
                None
            }
        }
    }
}

/// Looks each hole up in the text again, because an expression counts from its own beginning.
fn placed<'e>(node: &Node, text: &str, exprs: impl IntoIterator<Item = &'e Expr>) -> Vec<Placed> {
    let mut from = 0;
    let placed = exprs.into_iter().map(|expr| {
        from = next_hole(text, from);
        Placed::new(expr.clone(), node.clone(), from)
    });
    placed.collect()
}

/// The byte behind the next `${{` that opens a hole.
fn next_hole(text: &str, mut from: usize) -> usize {
    while let Some(found) = text[from..].find("${{") {
        let open = from + found;
        from = open + 3;
        if !text[..open].ends_with('$') {
            break;
        }
    }
    from
}
