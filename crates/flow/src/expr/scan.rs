//! Looking through source text without parsing it: brackets and string literals.
//!
//! The grammar's parser recurses, so how deep a text nests is measured before it is handed over.

/// How deep the brackets of a text nest, those in string literals and comments aside.
pub(crate) fn bracket_depth(source: &str) -> usize {
    let mut deepest = 0;
    let mut depth = 0_usize;
    walk(source, |_, byte| {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
        true
    });
    deepest
}

/// Where the `}}` that closes a hole stands, in a text that begins behind its `${{`.
///
/// A `}}` inside a string literal or inside the braces of a map does not close it.
pub(crate) fn hole_end(source: &str) -> Option<usize> {
    let mut end = None;
    let mut depth = 0_usize;
    let bytes = source.as_bytes();
    walk(source, |at, byte| {
        match byte {
            b'{' => depth += 1,
            b'}' if depth > 0 => depth -= 1,
            b'}' if bytes.get(at + 1) == Some(&b'}') => end = Some(at),
            _ => {}
        }
        end.is_none()
    });
    end
}

/// Calls `see` with every byte outside of literals and comments until it says stop.
fn walk(source: &str, mut see: impl FnMut(usize, u8) -> bool) {
    let bytes = source.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' | b'\'' => at = literal_end(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'/') => at = line_end(bytes, at),
            _ if see(at, byte) => at += 1,
            _ => return,
        }
    }
}

fn line_end(bytes: &[u8], from: usize) -> usize {
    let rest = &bytes[from..];
    rest.iter()
        .position(|byte| *byte == b'\n')
        .map_or(bytes.len(), |length| from + length)
}

/// The byte behind the string literal that opens at `open`.
fn literal_end(bytes: &[u8], open: usize) -> usize {
    let quote = bytes[open];
    let raw = open > 0 && is_raw_prefix(bytes, open);
    let triple = bytes.get(open + 1) == Some(&quote) && bytes.get(open + 2) == Some(&quote);
    let width = if triple { 3 } else { 1 };
    let mut at = open + width;
    while let Some(&byte) = bytes.get(at) {
        if byte == b'\\' && !raw {
            at += 2;
        } else if bytes[at..].starts_with(&[quote; 3][..width]) {
            return at + width;
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// Whether the quote belongs to `r"…"`, where a backslash means itself.
fn is_raw_prefix(bytes: &[u8], open: usize) -> bool {
    let letters = bytes[..open]
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_alphanumeric());
    let prefix: Vec<u8> = letters.map(u8::to_ascii_lowercase).collect();
    matches!(prefix.as_slice(), b"r" | b"rb" | b"br")
}
