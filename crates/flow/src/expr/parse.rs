//! From text to the lowered tree, on a stack that is deep enough.

use std::thread;

use cel::{Env, ParseErrors};

use super::limits::{BRACKET_DEPTH_MAX, NODE_DEPTH_MAX, SOURCE_BYTES_MAX};
use super::lower::{Lowered, Lowering};
use super::scan;
use super::syntax::{Kind, Node, Path, Root};
use super::{ExprError, ExprErrorKind};

/// The parser recurses about a dozen frames per bracket; the limits keep it within this.
const STACK_BYTES: usize = 64 * 1024 * 1024;

/// Words that are values or operators and so never a name.
const WORDS: [&str; 4] = ["true", "false", "null", "in"];

/// Runs `work` on a thread whose stack holds the parser's recursion.
pub(crate) fn with_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, work);
        match thread.map(thread::ScopedJoinHandle::join) {
            Ok(Ok(done)) => done,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(error) => panic!("cannot start a thread to parse expressions: {error}"),
        }
    })
}

/// Parses and lowers a text.
pub(crate) fn parse(source: &str, roots: &[&str]) -> Result<Lowered, ExprError> {
    refuse_too_large(source)?;
    // The bare environment has no macros: `has`, `all` and the like arrive as plain calls.
    let parsed = Env::default().parser().parse_with_source_info(source);
    let (tree, places) = parsed.map_err(|errors| syntax_error(source, &errors))?;
    Lowering::new(source, &places, roots).finish(&tree)
}

/// Reads `a.b.c` without the grammar, or gives up.
pub(crate) fn plain_path(source: &str, roots: &[&str]) -> Option<Lowered> {
    let text = source.trim();
    if text.len() > SOURCE_BYTES_MAX {
        return None;
    }
    let mut parts = text.split('.');
    let root = parts
        .next()
        .filter(|root| roots.contains(root) && is_name(root))?;
    let fields: Vec<&str> = parts.collect();
    if fields.len() > NODE_DEPTH_MAX || !fields.iter().copied().all(is_name) {
        return None;
    }
    let offset = source.len() - source.trim_start().len();
    let names = fields.iter().map(|field| Box::from(*field)).collect();
    let kind = Kind::Path(Root::Name(root.into()), names);
    let path = Path {
        root: root.to_owned(),
        fields: fields.into_iter().map(str::to_owned).collect(),
        offset,
        len: text.len(),
    };
    Some(Lowered {
        node: Node { at: offset, kind },
        references: vec![path],
    })
}

pub(crate) fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !WORDS.contains(&text)
}

fn refuse_too_large(source: &str) -> Result<(), ExprError> {
    let refuse = |message: String, fix: &str| {
        Err(ExprError {
            kind: ExprErrorKind::TooCostly,
            offset: 0,
            len: source.len(),
            message,
            fix: fix.to_owned(),
        })
    };
    if source.len() > SOURCE_BYTES_MAX {
        let message = format!("an expression has at most {SOURCE_BYTES_MAX} bytes");
        return refuse(message, "split it over several `function` steps");
    }
    if scan::bracket_depth(source) > BRACKET_DEPTH_MAX {
        let message = format!("brackets nest at most {BRACKET_DEPTH_MAX} deep");
        return refuse(message, "name parts of it in `function` steps");
    }
    Ok(())
}

/// The first complaint of the parser, at its place; the ones behind it are mostly echoes.
fn syntax_error(source: &str, errors: &ParseErrors) -> ExprError {
    let first = errors.errors.iter().min_by_key(|error| error.pos);
    let (line, column) = first.map_or((1, 1), |error| error.pos);
    let offset = offset_of(source, line, column);
    let said = first.map_or("cannot be read", |error| error.msg.as_str());
    ExprError {
        kind: ExprErrorKind::Syntax,
        offset,
        len: source[offset..].chars().next().map_or(0, char::len_utf8),
        message: format!("not an expression: {}", plain_words(said)),
        fix: syntax_fix(source).to_owned(),
    }
}

/// The byte at a line and column as the parser counts them: from one, in characters.
fn offset_of(source: &str, line: isize, column: isize) -> usize {
    let line = usize::try_from(line - 1).unwrap_or(0);
    let column = usize::try_from(column - 1).unwrap_or(0);
    let start: usize = source.split_inclusive('\n').take(line).map(str::len).sum();
    let rest = &source[start..];
    start
        + rest
            .char_indices()
            .nth(column)
            .map_or(rest.len(), |(at, _)| at)
}

/// The parser's message in words that fit an author, without the list of every token it knows.
fn plain_words(said: &str) -> String {
    let said = said.strip_prefix("Syntax error: ").unwrap_or(said);
    let said = said.split(" expecting ").next().unwrap_or(said);
    let token = said
        .split_once('\'')
        .and_then(|(_, rest)| rest.rsplit_once('\''));
    match token.map(|(token, _)| token.trim()) {
        Some(token) if token.ends_with("<EOF>") => "it ends too early".to_owned(),
        Some(token) if !token.is_empty() => format!("unexpected `{token}`"),
        Some(_) | None => said.to_owned(),
    }
}

fn syntax_fix(source: &str) -> &'static str {
    if source.trim().is_empty() {
        "write an expression, such as `input.id`"
    } else if source.contains("${{") {
        "this field is already an expression: write it without `${{ }}`"
    } else if source.contains(" and ") || source.contains(" or ") || source.contains(" not ") {
        "CEL writes `&&`, `||` and `!`"
    } else if has_lone_equals(source) {
        "CEL compares with `==`"
    } else {
        "expressions are CEL: see the page on expressions"
    }
}

/// Whether a `=` stands by itself, which is no operator of CEL.
fn has_lone_equals(source: &str) -> bool {
    let rest = source.replace("==", "").replace("!=", "");
    rest.replace("<=", "").replace(">=", "").contains('=')
}
