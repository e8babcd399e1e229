//! The comments of a file, each with the place that it belongs to.

use std::ops::Range;

use crate::yaml::{Kind, Node};

/// One comment, from `#` to the end of its line.
pub(super) struct Comment {
    pub(super) offset: usize,
    pub(super) text: String,
    /// How many characters stand before it on its line.
    pub(super) column: usize,
    /// Whether nothing stands before it on its line.
    pub(super) alone: bool,
    pub(super) used: bool,
}

/// The comments of a file, in order.
pub(super) struct Comments {
    pub(super) all: Vec<Comment>,
}

impl Comments {
    pub(super) fn gather(source: &str, tree: &Node) -> Self {
        let mut texts = vec![];
        spans(tree, &mut texts);
        texts.sort_by_key(|span| span.start);
        let mut all = vec![];
        let mut line_start = 0;
        for line in source.split_inclusive('\n') {
            let found = line.char_indices().find(|(at, letter)| {
                let offset = line_start + at;
                let free = *at == 0 || line[..*at].ends_with([' ', '\t']);
                *letter == '#' && free && !is_inside(&texts, offset)
            });
            if let Some((at, _)) = found {
                all.push(Comment {
                    offset: line_start + at,
                    text: line[at..].trim_end().to_owned(),
                    column: line[..at].chars().count(),
                    alone: line[..at].trim().is_empty(),
                    used: false,
                });
            }
            line_start += line.len();
        }
        Self { all }
    }

    /// Takes the comments that stand alone within a range.
    pub(super) fn take_alone(&mut self, within: Range<usize>) -> Vec<String> {
        let mut taken = vec![];
        for comment in &mut self.all {
            if comment.alone && !comment.used && within.contains(&comment.offset) {
                comment.used = true;
                taken.push(comment.text.clone());
            }
        }
        taken
    }

    /// Takes the comments that are left.
    pub(super) fn take_rest(&mut self) -> Vec<String> {
        let rest = self.all.iter_mut().filter(|comment| !comment.used);
        rest.map(|comment| std::mem::take(&mut comment.text))
            .collect()
    }

    /// Takes the comment behind something, to the end of the line, and its column.
    pub(super) fn take_behind(&mut self, source: &str, from: usize) -> Option<(usize, String)> {
        let rest = source.get(from..).unwrap_or_default();
        let end = from + rest.find('\n').unwrap_or(rest.len());
        let behind = |comment: &&mut Comment| {
            !comment.alone && !comment.used && (from..end).contains(&comment.offset)
        };
        let comment = self.all.iter_mut().find(behind)?;
        comment.used = true;
        Some((comment.column, comment.text.clone()))
    }

    /// Whether a range holds a comment that is left.
    pub(super) fn has_within(&self, within: &Range<usize>) -> bool {
        self.all
            .iter()
            .any(|comment| !comment.used && within.contains(&comment.offset))
    }
}

/// The places of all texts, names of fields included.
fn spans(node: &Node, found: &mut Vec<Range<usize>>) {
    match &node.kind {
        Kind::Scalar(_) => found.push(node.span.clone()),
        Kind::List(items) => items.iter().for_each(|item| spans(item, found)),
        Kind::Map(entries) => {
            for entry in entries {
                found.push(entry.key_span.clone());
                spans(&entry.value, found);
            }
        }
    }
}

fn is_inside(spans: &[Range<usize>], offset: usize) -> bool {
    let next = spans.partition_point(|span| span.start <= offset);
    next.checked_sub(1)
        .is_some_and(|index| spans[index].contains(&offset))
}
