//! From the parser's events to the tree.

use std::collections::HashSet;
use std::ops::Range;

use serde_saphyr::granit_parser::{self, Event, Marker, Parser, ScalarStyle, ScanError, StrInput};

use super::{
    DEPTH_MAX, Entry, FILE_BYTES_MAX, Kind, NODE_COUNT_MAX, Node, Scalar, SeededBug, Style,
};
use crate::diagnostic::Code;

/// Reads a file. Without a tree there is at least one mistake; with one there may be some.
pub(crate) fn parse(source: &str) -> (Option<Node>, Vec<SeededBug>) {
    if source.len() > FILE_BYTES_MAX {
        let message = format!("a flow has at most {FILE_BYTES_MAX} bytes");
        let help = "move large constants out of the file";
        return (
            None,
            vec![SeededBug {
                code: Code::TooLarge,
                span: 0..0,
                message,
                help,
            }],
        );
    }
    let options = granit_parser::options! { emit_unresolved_aliases: true };
    let parser = Parser::new_from_str_with_options(source, options);
    let mut builder = Builder {
        source,
        parser,
        mistakes: vec![],
        node_count: 0,
    };
    let tree = match builder.file() {
        Ok(tree) => tree,
        Err(mistake) => {
            builder.mistakes.push(mistake);
            None
        }
    };
    (tree, builder.mistakes)
}

struct Builder<'s> {
    source: &'s str,
    parser: Parser<'s, StrInput<'s>>,
    mistakes: Vec<SeededBug>,
    node_count: usize,
}

type Next<'s> = (Event<'s>, Range<usize>);

impl<'s> Builder<'s> {
    fn file(&mut self) -> Result<Option<Node>, SeededBug> {
        let mut tree = None;
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::StreamEnd) {
                break;
            }
            if !matches!(event, Event::DocumentStart(..)) {
                continue;
            }
            if tree.is_some() {
                let message = "a second document begins here";
                self.mistake(
                    Code::YamlDocuments,
                    span,
                    message,
                    "write one flow per file",
                );
                return Ok(tree);
            }
            let (event, span) = self.next()?;
            tree = Some(self.node(event, span, 0)?);
        }
        if tree.is_none() {
            let help = "begin with `flow: name`";
            self.mistake(Code::YamlDocuments, 0..0, "the file is empty", help);
        }
        Ok(tree)
    }

    fn node(
        &mut self,
        event: Event<'s>,
        span: Range<usize>,
        depth: usize,
    ) -> Result<Node, SeededBug> {
        self.node_count += 1;
        if self.node_count > NODE_COUNT_MAX {
            return Err(too_large(
                span,
                format!("a flow has at most {NODE_COUNT_MAX} parts"),
            ));
        }
        if depth > DEPTH_MAX {
            return Err(too_large(
                span,
                format!("a flow nests at most {DEPTH_MAX} deep"),
            ));
        }
        self.refuse_properties(&event, &span);
        if matches!(event, Event::SequenceStart(..)) {
            return self.list(span, depth);
        }
        if matches!(event, Event::MappingStart(..)) {
            return self.map(span, depth);
        }
        let scalar = if let Event::Scalar(text, style, ..) = event
            && !span.is_empty()
        {
            Scalar {
                text: text.into_owned(),
                style: of(style),
            }
        } else {
            // Where nothing stands the parser writes `~`; an alias has been refused above.
            Scalar {
                text: String::new(),
                style: Style::Plain,
            }
        };
        Ok(Node {
            span: self.trimmed(span),
            kind: Kind::Scalar(scalar),
        })
    }

    fn list(&mut self, open: Range<usize>, depth: usize) -> Result<Node, SeededBug> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                let span = self.trimmed(open.start..span.end);
                return Ok(Node {
                    span,
                    kind: Kind::List(items),
                });
            }
            items.push(self.node(event, span, depth + 1)?);
        }
    }

    fn map(&mut self, open: Range<usize>, depth: usize) -> Result<Node, SeededBug> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut known = HashSet::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                let span = self.trimmed(open.start..span.end);
                return Ok(Node {
                    span,
                    kind: Kind::Map(entries),
                });
            }
            let key = self.node(event, span, depth + 1)?;
            let (event, span) = self.next()?;
            let value = self.node(event, span, depth + 1)?;
            let Kind::Scalar(name) = key.kind else {
                self.mistake(
                    Code::WrongType,
                    key.span,
                    "a field's name must be text",
                    "write `name: value`",
                );
                continue;
            };
            if known.insert(name.text.clone()) {
                entries.push(Entry {
                    key: name.text,
                    key_span: key.span,
                    value,
                });
            } else {
                let message = format!("`{}` appears twice in one map", name.text);
                self.mistake(Code::DuplicateField, key.span, &message, "keep one of them");
            }
        }
    }

    fn refuse_properties(&mut self, event: &Event<'s>, span: &Range<usize>) {
        if event.is_alias() || event.anchor_id().is_some_and(|id| id != 0) {
            self.mistake(
                Code::YamlAlias,
                span.clone(),
                "anchors and aliases are not part of the flow language",
                "write the value out where it is used, or declare it under `env`",
            );
        }
        if event.tag().is_some() {
            self.mistake(
                Code::YamlTag,
                span.clone(),
                "tags are not part of the flow language",
                "leave the tag out; put quotes around text",
            );
        }
    }

    fn mistake(&mut self, code: Code, span: Range<usize>, message: &str, help: &'static str) {
        self.mistakes.push(SeededBug {
            code,
            span,
            message: message.to_owned(),
            help,
        });
    }

    fn next(&mut self) -> Result<Next<'s>, SeededBug> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => {
                let range = self.byte(&span.start)..self.byte(&span.end);
                Ok((event, range))
            }
            Some(Err(error)) => Err(self.syntax(&error)),
            None => Ok((Event::StreamEnd, self.source.len()..self.source.len())),
        }
    }

    fn syntax(&self, error: &ScanError) -> SeededBug {
        let at = self.byte(error.marker());
        let line = self
            .source
            .lines()
            .nth(error.marker().line().saturating_sub(1));
        let hole = line.is_some_and(|line| line.contains("${{"));
        SeededBug {
            code: Code::YamlSyntax,
            span: at..at + 1,
            message: format!("not YAML: {}", error.info()),
            help: if hole {
                "put quotes around the text that has `${{ }}` in it"
            } else {
                "look at the indentation, the colons and the quotes here and on the line above"
            },
        }
    }

    /// The scanner's errors have no byte offset, only a line and a column.
    fn byte(&self, marker: &Marker) -> usize {
        marker.byte_offset().unwrap_or_else(|| {
            let before = self
                .source
                .split_inclusive('\n')
                .take(marker.line().saturating_sub(1));
            let start: usize = before.map(str::len).sum();
            let rest = &self.source[start..];
            start
                + rest
                    .char_indices()
                    .nth(marker.col())
                    .map_or(rest.len(), |(at, _)| at)
        })
    }

    /// Block collections and texts end where the next token begins: the space between is not theirs.
    fn trimmed(&self, span: Range<usize>) -> Range<usize> {
        let end = span.end.min(self.source.len());
        let text = self.source.get(span.start..end).unwrap_or_default();
        span.start..span.start + text.trim_end().len()
    }
}

fn too_large(span: Range<usize>, message: String) -> SeededBug {
    let help = "split the flow into several";
    SeededBug {
        code: Code::TooLarge,
        span,
        message,
        help,
    }
}

const fn of(style: ScalarStyle) -> Style {
    match style {
        ScalarStyle::Plain => Style::Plain,
        ScalarStyle::SingleQuoted => Style::Single,
        ScalarStyle::DoubleQuoted => Style::Double,
        ScalarStyle::Literal | ScalarStyle::Folded => Style::Block,
    }
}
