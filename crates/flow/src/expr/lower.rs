//! From the parser's tree to ours: names checked, chains flattened, limits kept.

mod call;

use cel::common::ast::{EntryExpr, Expr as Ast, IdedExpr, LiteralValue, SelectExpr, SourceInfo};

use super::limits::{NODE_COUNT_MAX, NODE_DEPTH_MAX};
use super::syntax::{Kind, Literal, Node, Path, Root};
use super::{ExprError, ExprErrorKind};
use crate::nearest::nearest;

/// A lowered tree and what it reads.
pub(crate) struct Lowered {
    pub(crate) node: Node,
    pub(crate) references: Vec<Path>,
}

/// The state of one lowering.
pub(super) struct Lowering<'s> {
    source: &'s str,
    places: &'s SourceInfo,
    roots: &'s [&'s str],
    bound: Vec<Box<str>>,
    node_count: usize,
    depth: usize,
    references: Vec<Path>,
}

impl<'s> Lowering<'s> {
    pub(super) fn new(source: &'s str, places: &'s SourceInfo, roots: &'s [&'s str]) -> Self {
        Self {
            source,
            places,
            roots,
            bound: vec![],
            node_count: 0,
            depth: 0,
            references: vec![],
        }
    }

    pub(super) fn finish(mut self, tree: &IdedExpr) -> Result<Lowered, ExprError> {
        let node = self.lower(tree)?;
        Ok(Lowered {
            node,
            references: self.references,
        })
    }

    fn lower(&mut self, tree: &IdedExpr) -> Result<Node, ExprError> {
        self.count(tree)?;
        self.depth += 1;
        if self.depth > NODE_DEPTH_MAX {
            return Err(self.too_costly(tree, "the expression nests too deep"));
        }
        let kind = match &tree.expr {
            Ast::Literal(value) => Kind::Literal(self.literal(tree, value)?),
            Ast::Ident(_) | Ast::Select(_) => self.select(tree)?,
            Ast::List(list) if list.optional_indices.is_empty() => {
                Kind::List(self.lower_all(&list.elements)?)
            }
            Ast::Map(map) => Kind::Map(self.entries(tree, &map.entries)?),
            Ast::Call(call) => self.call(tree, call)?,
            Ast::List(_) | Ast::Struct(_) | Ast::Comprehension(_) | Ast::Unspecified => {
                return Err(self.left_out(tree, "this form of CEL"));
            }
        };
        self.depth -= 1;
        Ok(Node {
            at: self.offset(tree),
            kind,
        })
    }

    fn lower_all(&mut self, trees: &[IdedExpr]) -> Result<Vec<Node>, ExprError> {
        trees.iter().map(|tree| self.lower(tree)).collect()
    }

    fn count(&mut self, tree: &IdedExpr) -> Result<(), ExprError> {
        self.node_count += 1;
        if self.node_count > NODE_COUNT_MAX {
            let message = format!("an expression has at most {NODE_COUNT_MAX} parts");
            return Err(self.too_costly(tree, &message));
        }
        Ok(())
    }

    fn literal(&self, tree: &IdedExpr, value: &LiteralValue) -> Result<Literal, ExprError> {
        Ok(match value {
            LiteralValue::Boolean(value) => Literal::Bool(*value.inner()),
            LiteralValue::Int(value) => Literal::Int(*value.inner()),
            LiteralValue::Double(value) => Literal::Double(*value.inner()),
            LiteralValue::String(value) => Literal::Text(value.inner().into()),
            LiteralValue::Null => Literal::Null,
            LiteralValue::Bytes(_) => return Err(self.left_out(tree, "a bytes literal")),
            LiteralValue::UInt(_) => return Err(self.left_out(tree, "an unsigned number")),
        })
    }

    fn entries(
        &mut self,
        tree: &IdedExpr,
        entries: &[cel::common::ast::IdedEntryExpr],
    ) -> Result<Vec<(Node, Node)>, ExprError> {
        let mut lowered = Vec::with_capacity(entries.len());
        for entry in entries {
            match &entry.expr {
                EntryExpr::MapEntry(pair) if !pair.optional => {
                    lowered.push((self.lower(&pair.key)?, self.lower(&pair.value)?));
                }
                EntryExpr::MapEntry(_) | EntryExpr::StructField(_) => {
                    return Err(self.left_out(tree, "an optional entry"));
                }
            }
        }
        Ok(lowered)
    }

    /// A chain of fields and of literal text indices, gathered into one path.
    fn select(&mut self, tree: &IdedExpr) -> Result<Kind, ExprError> {
        let mut fields = Vec::new();
        let base = self.gather_fields(tree, &mut fields)?;
        fields.reverse();
        if let Ast::Ident(name) = &base.expr {
            return self.name(base, name, fields);
        }
        Ok(Kind::Field(Box::new(self.lower(base)?), fields.into()))
    }

    /// Walks down the fields and gives what they are fields of.
    fn gather_fields<'t>(
        &mut self,
        tree: &'t IdedExpr,
        fields: &mut Vec<Box<str>>,
    ) -> Result<&'t IdedExpr, ExprError> {
        let mut base = tree;
        loop {
            match &base.expr {
                Ast::Select(SelectExpr {
                    operand,
                    field,
                    test: false,
                }) => {
                    fields.push(field.as_str().into());
                    base = operand;
                }
                Ast::Call(call) => match call::text_index(call) {
                    Some((of, field)) => {
                        fields.push(field.into());
                        base = of;
                    }
                    None => return Ok(base),
                },
                Ast::Select(_)
                | Ast::Ident(_)
                | Ast::List(_)
                | Ast::Literal(_)
                | Ast::Map(_)
                | Ast::Struct(_)
                | Ast::Comprehension(_)
                | Ast::Unspecified => return Ok(base),
            }
            self.count(base)?;
        }
    }

    fn name(
        &mut self,
        tree: &IdedExpr,
        name: &str,
        fields: Vec<Box<str>>,
    ) -> Result<Kind, ExprError> {
        let depth = self.bound.iter().rposition(|bound| &**bound == name);
        if let Some(depth) = depth {
            return Ok(Kind::Path(Root::Bound(depth, name.into()), fields.into()));
        }
        let offset = self.offset(tree);
        if !self.roots.contains(&name) {
            return Err(self.unknown_name(offset, name));
        }
        self.references.push(Path {
            root: name.to_owned(),
            fields: fields.iter().map(|field| String::from(&**field)).collect(),
            offset,
            len: path_len(&self.source[offset..]),
        });
        Ok(Kind::Path(Root::Name(name.into()), fields.into()))
    }

    fn unknown_name(&self, offset: usize, name: &str) -> ExprError {
        // The parser keeps the dot of `.name` in the name, and points behind it.
        let name = name.trim_start_matches('.');
        let fix = match nearest(name, self.roots.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("in scope here: {}", self.roots.join(", ")),
        };
        ExprError {
            kind: ExprErrorKind::UnknownName,
            offset,
            len: name.len(),
            message: format!("`{name}` is not a name that can be used here"),
            fix,
        }
    }

    fn left_out(&self, tree: &IdedExpr, what: &str) -> ExprError {
        self.error(
            tree,
            ExprErrorKind::Syntax,
            format!("{what} is not part of the flow language"),
            "values are JSON: null, bool, number, text, list and map",
        )
    }

    fn too_costly(&self, tree: &IdedExpr, message: &str) -> ExprError {
        let fix = "split it over several `function` steps";
        self.error(tree, ExprErrorKind::TooCostly, message.to_owned(), fix)
    }

    fn error(&self, tree: &IdedExpr, kind: ExprErrorKind, message: String, fix: &str) -> ExprError {
        let offset = self.offset(tree);
        let len = self.source[offset..]
            .chars()
            .next()
            .map_or(0, char::len_utf8);
        ExprError {
            kind,
            offset,
            len,
            message,
            fix: fix.to_owned(),
        }
    }

    /// Where a node begins, in bytes.
    fn offset(&self, tree: &IdedExpr) -> usize {
        let place = self.places.offset_for(tree.id);
        let start = place.map_or(0, |(start, _)| start as usize);
        self.source.floor_char_boundary(start)
    }
}

/// How far a name with its fields reaches from the beginning of a text: `a.b["c d"].e`.
fn path_len(text: &str) -> usize {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let mut len = 0;
    loop {
        let rest = &text[len..];
        len += rest.find(|c| !part(c)).unwrap_or(rest.len());
        match index_len(&text[len..]) {
            Some(index) => len += index,
            None => return text[..len].trim_end_matches('.').len(),
        }
    }
}

/// The length of `["field"]` at the beginning of a text.
fn index_len(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('[')?;
    let quote = inner.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let end = inner[1..].find(quote)?;
    inner[1 + end + 1..].starts_with(']').then_some(end + 4)
}
