//! Writing a tree.

use super::comments::Comments;
use super::{LINE_CHARS_MAX, scalar};
use crate::grammar::{FieldType, MapSchema};
use crate::language::STEP;
use crate::yaml::{Entry, Kind, Node, Style};

/// The state of one writing.
pub(super) struct Emitter<'s> {
    source: &'s str,
    comments: Comments,
    out: String,
}

impl<'s> Emitter<'s> {
    pub(super) const fn new(source: &'s str, comments: Comments) -> Self {
        Self {
            source,
            comments,
            out: String::new(),
        }
    }

    pub(super) fn file(&mut self, tree: &Node, takes: FieldType) {
        // What stands at the head of a file speaks about the file.
        self.lead(0..tree.span.start, 0, false);
        if !self.out.is_empty() && self.source[..tree.span.start].ends_with("\n\n") {
            self.out.push('\n');
        }
        match &tree.kind {
            Kind::Map(entries) if !entries.is_empty() => {
                self.map(entries, schema_of(takes, tree), 0, 0);
            }
            Kind::List(items) if !items.is_empty() => self.list(items, item_of(takes), 0, 0),
            Kind::Map(_) | Kind::List(_) | Kind::Scalar(_) => {
                let text = self.flat(tree, takes);
                self.out.push_str(&text);
                self.out.push('\n');
            }
        }
    }

    pub(super) fn finish(mut self) -> String {
        for comment in self.comments.take_rest() {
            self.out.push_str(&comment);
            self.out.push('\n');
        }
        self.out
    }

    /// The entries of a map, each on lines of its own. `from` is where the map begins in the file.
    fn map(
        &mut self,
        entries: &[Entry],
        schema: Option<&'static MapSchema>,
        indent: usize,
        from: usize,
    ) {
        let starts: Vec<usize> = before_each(
            entries.iter().map(|entry| {
                (
                    entry.key_span.start,
                    last_end(self.source, &entry.value).max(entry.key_span.end),
                )
            }),
            from,
        );
        for (position, index) in in_order(entries, schema).into_iter().enumerate() {
            let entry = &entries[index];
            self.lead(starts[index]..entry.key_span.start, indent, position > 0);
            // The first field of an item stands on the line of its dash.
            let width = self.column();
            self.pad(indent.saturating_sub(width));
            self.entry(entry, schema, indent);
        }
    }

    fn entry(&mut self, entry: &Entry, schema: Option<&'static MapSchema>, indent: usize) {
        let key = self
            .source
            .get(entry.key_span.clone())
            .unwrap_or(&entry.key);
        self.out.push_str(key);
        self.out.push(':');
        let field = schema.and_then(|schema| schema.find(&entry.key));
        let takes = field.map_or(FieldType::Constant, |field| field.takes);
        self.value(&entry.value, takes, indent, entry.key_span.end);
    }

    fn list(&mut self, items: &[Node], takes: FieldType, indent: usize, from: usize) {
        let starts = before_each(
            items
                .iter()
                .map(|item| (item.span.start, last_end(self.source, item))),
            from,
        );
        for (index, item) in items.iter().enumerate() {
            self.lead(starts[index]..item.span.start, indent, index > 0);
            self.pad(indent);
            self.out.push('-');
            let begin = item.span.start;
            match &item.kind {
                Kind::Map(entries)
                    if !entries.is_empty() && !self.fits_flat(item, takes, indent) =>
                {
                    self.out.push(' ');
                    self.map(entries, schema_of(takes, item), indent + 2, begin);
                }
                Kind::Map(_) | Kind::List(_) | Kind::Scalar(_) => {
                    self.value(item, takes, indent, begin);
                }
            }
        }
    }

    /// What stands behind `name:` or `-`, to the end of its lines.
    fn value(&mut self, node: &Node, takes: FieldType, indent: usize, from: usize) {
        if let Kind::Scalar(text) = &node.kind {
            self.scalar(node, &text.text, indent);
            return;
        }
        if self.fits_flat(node, takes, indent) {
            let text = self.flat(node, takes);
            self.out.push(' ');
            self.out.push_str(&text);
            self.behind(node.span.end);
            return;
        }
        self.behind(from);
        match &node.kind {
            Kind::Map(entries) => self.map(entries, schema_of(takes, node), indent + 2, from),
            Kind::List(items) => self.list(items, item_of(takes), indent + 2, from),
            Kind::Scalar(_) => {}
        }
    }

    fn scalar(&mut self, node: &Node, text: &str, indent: usize) {
        if let Some(inline) = scalar::inline(self.source, node) {
            if !inline.is_empty() {
                self.out.push(' ');
                self.out.push_str(&inline);
            }
            self.behind(node.span.end);
            return;
        }
        let (header, lines) = scalar::block(text);
        self.out.push(' ');
        self.out.push_str(&header);
        self.out.push('\n');
        for line in lines {
            if !line.is_empty() {
                self.pad(indent + 2);
                self.out.push_str(&line);
            }
            self.out.push('\n');
        }
    }

    /// The comment behind what was written, and the end of the line.
    fn behind(&mut self, from: usize) {
        if let Some((column, comment)) = self.comments.take_behind(self.source, from) {
            // Comments that are aligned stay aligned if there is room.
            let width = self.column();
            self.pad(column.saturating_sub(width).max(1));
            self.out.push_str(&comment);
        }
        self.out.push('\n');
    }

    /// The blank line and the comments before something.
    fn lead(&mut self, before: std::ops::Range<usize>, indent: usize, may_part: bool) {
        let gap = self.source.get(before.clone()).unwrap_or_default();
        let first = gap.find('#').unwrap_or(gap.len());
        let parted = gap[..first].matches('\n').count() > 1;
        if may_part && parted {
            self.out.push('\n');
        }
        // What speaks about the first field of an item goes before its dash.
        let line = self.out.rfind('\n').map_or(0, |at| at + 1);
        let begun = self.out.split_off(line);
        let indent = indent.min(begun.find('-').unwrap_or(indent));
        for comment in self.comments.take_alone(before) {
            self.pad(indent);
            self.out.push_str(&comment);
            self.out.push('\n');
        }
        self.out.push_str(&begun);
    }

    /// How many characters stand on the line that is being written.
    fn column(&self) -> usize {
        let start = self.out.rfind('\n').map_or(0, |at| at + 1);
        self.out[start..].chars().count()
    }

    fn pad(&mut self, indent: usize) {
        self.out.extend(std::iter::repeat_n(' ', indent));
    }

    /// Whether a list or a map was written in brackets, and still fits on its line.
    fn fits_flat(&self, node: &Node, takes: FieldType, indent: usize) -> bool {
        let bracketed = self
            .source
            .get(node.span.clone())
            .is_some_and(|raw| raw.starts_with(['{', '[']));
        let empty = match &node.kind {
            Kind::List(items) => items.is_empty(),
            Kind::Map(entries) => entries.is_empty(),
            Kind::Scalar(_) => false,
        };
        if empty {
            return true;
        }
        let column = self.column().max(indent);
        bracketed
            && !self.comments.has_within(&node.span)
            && column + 1 + self.flat(node, takes).chars().count() <= LINE_CHARS_MAX
    }

    /// A node in brackets, on one line.
    fn flat(&self, node: &Node, takes: FieldType) -> String {
        match &node.kind {
            Kind::Scalar(text) => scalar::inline(self.source, node)
                .filter(|_| text.style != Style::Block)
                .unwrap_or_else(|| serde_json::Value::from(text.text.as_str()).to_string()),
            Kind::List(items) if items.is_empty() => "[]".to_owned(),
            Kind::List(items) => {
                let items = items.iter().map(|item| self.flat(item, item_of(takes)));
                format!("[{}]", items.collect::<Vec<_>>().join(", "))
            }
            Kind::Map(entries) if entries.is_empty() => "{}".to_owned(),
            Kind::Map(entries) => {
                let schema = schema_of(takes, node);
                let fields = in_order(entries, schema).into_iter().map(|index| {
                    let entry = &entries[index];
                    let field = schema.and_then(|schema| schema.find(&entry.key));
                    let takes = field.map_or(FieldType::Constant, |field| field.takes);
                    let key = self
                        .source
                        .get(entry.key_span.clone())
                        .unwrap_or(&entry.key);
                    let value = self.flat(&entry.value, takes);
                    format!("{key}: {value}").trim_end().to_owned()
                });
                format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// Where the space before each part begins: behind the line on which the one before ends.
fn before_each(parts: impl Iterator<Item = (usize, usize)>, from: usize) -> Vec<usize> {
    let mut last = from;
    let starts = parts.map(|(_, end)| std::mem::replace(&mut last, end));
    starts.collect()
}

/// The entries in the order of the grammar; what it does not know comes last.
fn in_order(entries: &[Entry], schema: Option<&'static MapSchema>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..entries.len()).collect();
    if let Some(schema) = schema {
        let place = |index: &usize| {
            let mut names = schema.names();
            names
                .position(|name| name == entries[*index].key)
                .unwrap_or(usize::MAX)
        };
        order.sort_by_key(place);
    }
    order
}

fn schema_of(takes: FieldType, node: &Node) -> Option<&'static MapSchema> {
    if let FieldType::Map(schema) = takes {
        return Some(schema);
    }
    if let (FieldType::Either(forms), Kind::Map(_)) = (takes, &node.kind) {
        return forms.iter().find_map(|form| schema_of(*form, node));
    }
    None
}

/// What the items of a list take.
fn item_of(takes: FieldType) -> FieldType {
    if let FieldType::Maps(schema) = takes {
        return FieldType::Map(schema);
    }
    if matches!(takes, FieldType::Steps) {
        return FieldType::Map(&STEP);
    }
    FieldType::Constant
}

/// Where the last text of a node ends. A collection without brackets seems to reach over the
/// comments behind it.
fn last_end(source: &str, node: &Node) -> usize {
    let bracketed = source
        .get(node.span.clone())
        .is_some_and(|raw| raw.starts_with(['{', '[']));
    let last = match &node.kind {
        Kind::List(items) if !bracketed => items.last(),
        Kind::Map(entries) if !bracketed => entries.last().map(|entry| &entry.value),
        Kind::List(_) | Kind::Map(_) | Kind::Scalar(_) => None,
    };
    last.map_or(node.span.end, |last| last_end(source, last))
}
