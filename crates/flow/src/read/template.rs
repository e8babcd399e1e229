//! Values and texts with holes.

use super::Reader;
use super::names::Names;
use crate::diagnostic::Code;
use crate::expr::{Expr, ExprError};
use crate::release::TextMap;
use crate::template::{Template, TextTemplate};
use crate::yaml::{Kind, Node, Style};

impl Reader<'_> {
    /// A text with holes.
    pub(super) fn text_template(
        &mut self,
        node: &Node,
        field: &str,
        names: Names<'_>,
    ) -> Option<TextTemplate> {
        let text = self.text(node, field)?;
        if !self.afford_holes(node, text) {
            return None;
        }
        let compiled = TextTemplate::compile_here(text, names.place.roots());
        let template = self.compiled(node, compiled)?;
        let exprs: Vec<&Expr> = template.exprs().collect();
        self.holes_exist(node, text, &exprs, names)
            .then_some(template)
    }

    /// Any value, with holes in its texts.
    pub(super) fn template(&mut self, node: &Node, names: Names<'_>) -> Option<Template> {
        match &node.kind {
            Kind::Scalar(scalar)
                if scalar.style == Style::Plain && !scalar.text.contains("${{") =>
            {
                let value = self.plain(node, &scalar.text)?;
                match value.as_str() {
                    Some(text) => self.text_value(node, text, names),
                    None => Some(Template::plain(value)),
                }
            }
            Kind::Scalar(scalar) => self.text_value(node, &scalar.text, names),
            Kind::List(items) => {
                let items: Vec<_> = items
                    .iter()
                    .map(|item| self.template(item, names))
                    .collect();
                items.into_iter().collect::<Option<_>>().map(Template::list)
            }
            Kind::Map(entries) => {
                let fields: Vec<_> = entries
                    .iter()
                    .map(|entry| Some((entry.key.clone(), self.template(&entry.value, names)?)))
                    .collect();
                fields.into_iter().collect::<Option<_>>().map(Template::map)
            }
        }
    }

    /// A map of texts with holes; `admit` judges and spells the names.
    pub(super) fn text_templates(
        &mut self,
        node: &Node,
        field: &'static str,
        names: Names<'_>,
        mut admit: impl FnMut(&mut Self, &str, &Node) -> Option<String>,
    ) -> Option<TextMap<TextTemplate>> {
        let Kind::Map(entries) = &node.kind else {
            self.wrong_type(node, field, "a map");
            return None;
        };
        let mut read = Some(TextMap::new());
        for entry in entries {
            let key_node = Node {
                span: entry.key_span.clone(),
                kind: Kind::Map(vec![]),
            };
            let name = admit(self, &entry.key, &key_node);
            let value = self.text_template(&entry.value, &entry.key, names);
            match (&mut read, name, value) {
                (Some(map), Some(name), Some(value)) => {
                    let message = format!("`{name}` stands twice under `{field}`");
                    if map.insert(name, value).is_some() {
                        let span = entry.key_span.clone();
                        self.report(Code::DuplicateField, span, &message, "keep one of them");
                    }
                }
                _ => read = None,
            }
        }
        read
    }

    fn text_value(&mut self, node: &Node, text: &str, names: Names<'_>) -> Option<Template> {
        if !self.afford_holes(node, text) {
            return None;
        }
        let template = self.compiled(node, Template::text(text, names.place.roots()))?;
        self.holes_exist(node, text, &template.exprs(), names)
            .then_some(template)
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

    /// Looks each hole up in the text again, because an expression counts from its own beginning.
    fn holes_exist(&mut self, node: &Node, text: &str, exprs: &[&Expr], names: Names<'_>) -> bool {
        let mut exist = true;
        let mut from = 0;
        for expr in exprs {
            from = next_hole(text, from);
            exist &= self.names_exist(node, from, expr, names);
        }
        exist
    }
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
