//! From a place in a scalar's value back to its place in the file.

use std::ops::Range;

use super::{Node, Scalar, Style};

impl Node {
    /// The bytes of the file behind a range of a scalar's text.
    ///
    /// Quotes, escapes, indentation and folded lines make the two differ. They are aligned letter
    /// by letter; where that fails, the whole scalar is meant.
    pub(crate) fn place(&self, source: &str, offset: usize, len: usize) -> Range<usize> {
        let Some(scalar) = self.as_scalar() else {
            return self.span.clone();
        };
        let raw = source.get(self.span.clone()).unwrap_or_default();
        let start = align(scalar, raw, offset);
        let end = align(scalar, raw, offset + len);
        match (start, end) {
            (Some(start), Some(end)) => self.span.start + start..self.span.start + end.max(start),
            (Some(start), None) => self.span.start + start..self.span.end,
            (None, _) => self.span.clone(),
        }
    }
}

/// Where in the raw text the byte of the value at `offset` comes from.
fn align(scalar: &Scalar, raw: &str, offset: usize) -> Option<usize> {
    let mut rest = raw.char_indices().peekable();
    // A block's span begins behind its header, a quoted text's before its quote.
    if matches!(scalar.style, Style::Single | Style::Double) {
        rest.next();
    }
    for (at, wanted) in scalar.text.char_indices() {
        let place = loop {
            let (place, found) = rest.next()?;
            if found == '\\' && scalar.style == Style::Double {
                rest.next();
                break place;
            }
            if found == wanted || (found.is_whitespace() && wanted.is_whitespace()) {
                break place;
            }
        };
        if at >= offset {
            return Some(place);
        }
    }
    rest.peek()
        .map_or(Some(raw.len()), |(place, _)| Some(*place))
}
