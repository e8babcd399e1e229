//! Calls: operators, comprehensions and functions all arrive as one.

use cel::common::ast::{CallExpr, Expr as Ast, IdedExpr, LiteralValue, operators};
use regex::RegexBuilder;

use super::super::builtin::Builtin;
use super::super::limits::{COMPREHENSION_DEPTH_MAX, PATTERN_BYTES_MAX};
use super::super::syntax::{Each, EachKind, Kind, Literal, Operator, Pattern, Relation};
use super::super::{ExprError, ExprErrorKind};
use super::Lowering;
use crate::nearest::nearest;

/// Names under which people look for a clock or for chance.
const UNSTEADY: [&str; 14] = [
    "now",
    "today",
    "time",
    "timestamp",
    "current_time",
    "uuid",
    "uuid4",
    "guid",
    "random",
    "rand",
    "nonce",
    "getdate",
    "utcnow",
    "randomuuid",
];
const UNSTEADY_FIX: &str = "expressions have no clock and no randomness: every evaluation must \
                            return the same value; use a time or an id from the input";

impl Lowering<'_> {
    pub(super) fn call(&mut self, tree: &IdedExpr, call: &CallExpr) -> Result<Kind, ExprError> {
        let name = call.func_name.as_str();
        if let (Some(_), [left, right]) = (operator(name), call.args.as_slice()) {
            return self.chain(name, left, right);
        }
        if let (Some(relation), [left, right]) = (relation(name), call.args.as_slice()) {
            let (left, right) = (self.lower(left)?, self.lower(right)?);
            return Ok(Kind::Compare(relation, Box::new(left), Box::new(right)));
        }
        match (name, call.args.as_slice()) {
            (operators::LOGICAL_AND, _) => Ok(Kind::And(self.terms(tree, name)?)),
            (operators::LOGICAL_OR, _) => Ok(Kind::Or(self.terms(tree, name)?)),
            (operators::LOGICAL_NOT, [of]) => Ok(Kind::Not(Box::new(self.lower(of)?))),
            (operators::NEGATE, [of]) => self.negate(of),
            (operators::CONDITIONAL, [test, then, other]) => {
                let parts = [self.lower(test)?, self.lower(then)?, self.lower(other)?];
                Ok(Kind::If(Box::new(parts)))
            }
            (operators::INDEX, [of, index]) => self.index(tree, of, index),
            (operators::OPT_INDEX | operators::OPT_SELECT, _) => {
                Err(self.left_out(tree, "optional access"))
            }
            _ => self.function(tree, call),
        }
    }

    /// `a + b - c` leans to the left: its spine becomes one node, whatever its length.
    fn chain(&mut self, name: &str, left: &IdedExpr, right: &IdedExpr) -> Result<Kind, ExprError> {
        let mut first = left;
        let mut spine: Vec<(&str, &IdedExpr)> = vec![(name, right)];
        while let Ast::Call(call) = &first.expr
            && let [left, right] = call.args.as_slice()
            && operator_class(&call.func_name) == operator_class(name)
        {
            self.count(first)?;
            spine.push((&call.func_name, right));
            first = left;
        }
        let first = self.lower(first)?;
        let mut rest = Vec::with_capacity(spine.len());
        for (name, right) in spine.into_iter().rev() {
            let Some(operator) = operator(name) else {
                continue;
            };
            rest.push((operator, self.lower(right)?));
        }
        Ok(Kind::Chain(Box::new(first), rest))
    }

    /// The operands of `&&` or `||`, however the parser bracketed them.
    fn terms(&mut self, tree: &IdedExpr, name: &str) -> Result<Vec<super::Node>, ExprError> {
        let mut terms = Vec::new();
        let mut pending = vec![tree];
        while let Some(next) = pending.pop() {
            if let Ast::Call(call) = &next.expr
                && call.func_name == name
            {
                self.count(next)?;
                pending.extend(call.args.iter().rev());
            } else {
                terms.push(self.lower(next)?);
            }
        }
        Ok(terms)
    }

    fn negate(&mut self, of: &IdedExpr) -> Result<Kind, ExprError> {
        let of = self.lower(of)?;
        if let Kind::Literal(literal) = &of.kind {
            match literal {
                Literal::Int(value) if *value != i64::MIN => {
                    return Ok(Kind::Literal(Literal::Int(-*value)));
                }
                Literal::Double(value) => return Ok(Kind::Literal(Literal::Double(-*value))),
                Literal::Int(_) | Literal::Null | Literal::Bool(_) | Literal::Text(_) => {}
            }
        }
        Ok(Kind::Negate(Box::new(of)))
    }

    fn index(
        &mut self,
        tree: &IdedExpr,
        of: &IdedExpr,
        index: &IdedExpr,
    ) -> Result<Kind, ExprError> {
        if matches!(index.expr, Ast::Literal(LiteralValue::String(_))) {
            return self.select(tree);
        }
        let (of, index) = (self.lower(of)?, self.lower(index)?);
        Ok(Kind::Index(Box::new(of), Box::new(index)))
    }

    /// A function takes its receiver as its first argument: `a.lower()` is `lower(a)`.
    fn function(&mut self, tree: &IdedExpr, call: &CallExpr) -> Result<Kind, ExprError> {
        let name = call.func_name.as_str();
        let arguments: Vec<&IdedExpr> = call
            .target
            .as_deref()
            .into_iter()
            .chain(&call.args)
            .collect();
        if let (Some(kind), true) = (each_kind(name, arguments.len()), call.target.is_some()) {
            return self.each(tree, kind, &arguments);
        }
        match (name, arguments.as_slice()) {
            ("has", [of]) => self.has(tree, of),
            ("matches", [of, pattern]) => self.matches(of, pattern),
            ("default", [of, other]) => Ok(Kind::Default(Box::new([
                self.lower(of)?,
                self.lower(other)?,
            ]))),
            _ => {
                let builtin = self.builtin(tree, name, arguments.len())?;
                let lowered = arguments.into_iter().map(|argument| self.lower(argument));
                Ok(Kind::Call(builtin, lowered.collect::<Result<_, _>>()?))
            }
        }
    }

    fn builtin(&self, tree: &IdedExpr, name: &str, count: usize) -> Result<Builtin, ExprError> {
        let Some(builtin) = Builtin::find(name) else {
            return Err(self.unknown_function(tree, name));
        };
        if builtin.takes(count) {
            return Ok(builtin);
        }
        let message = format!("`{name}` cannot be called with {count} arguments");
        let fix = format!("write `{}`", builtin.usage());
        Err(self.error(tree, ExprErrorKind::UnknownFunction, message, &fix))
    }

    fn unknown_function(&self, tree: &IdedExpr, name: &str) -> ExprError {
        let message = format!("there is no function `{name}`");
        let fix = match nearest(name, Builtin::names()) {
            _ if UNSTEADY.contains(&name.to_ascii_lowercase().as_str()) => UNSTEADY_FIX.to_owned(),
            Some(near) => format!("did you mean `{near}`?"),
            None => format!(
                "functions: {}",
                Builtin::names().collect::<Vec<_>>().join(", ")
            ),
        };
        let mut error = self.error(tree, ExprErrorKind::UnknownFunction, message, &fix);
        // The parser points at the bracket; the name stands right before it.
        if let Some(start) = self.source[..error.offset].rfind(name) {
            (error.offset, error.len) = (start, name.len());
        }
        error
    }

    fn has(&mut self, tree: &IdedExpr, of: &IdedExpr) -> Result<Kind, ExprError> {
        let lowered = self.lower(of)?;
        let at = lowered.at;
        let split = if let Kind::Path(root, fields) = lowered.kind {
            split_last(fields, |fields| Kind::Path(root, fields))
        } else if let Kind::Field(of, fields) = lowered.kind {
            split_last(fields, |fields| Kind::Field(of, fields))
        } else {
            None
        };
        let Some((kind, field)) = split else {
            let message = "`has` takes a field".to_owned();
            let fix = "write `has(input.field)`";
            return Err(self.error(tree, ExprErrorKind::UnknownFunction, message, fix));
        };
        Ok(Kind::Has(Box::new(super::Node { at, kind }), field))
    }

    fn matches(&mut self, of: &IdedExpr, pattern: &IdedExpr) -> Result<Kind, ExprError> {
        let Ast::Literal(LiteralValue::String(source)) = &pattern.expr else {
            let message = "the pattern of `matches` must be a literal".to_owned();
            let fix = "write the pattern in quotes, so that its cost is known before the run";
            return Err(self.error(pattern, ExprErrorKind::Syntax, message, fix));
        };
        let compiled = compile_pattern(source.inner()).map_err(|said| {
            let message = format!("not a pattern: {said}");
            let fix = "patterns are RE2: no back references, no look-around";
            self.error(pattern, ExprErrorKind::Syntax, message, fix)
        })?;
        Ok(Kind::Matches(Box::new(self.lower(of)?), Box::new(compiled)))
    }

    fn each(
        &mut self,
        tree: &IdedExpr,
        kind: EachKind,
        arguments: &[&IdedExpr],
    ) -> Result<Kind, ExprError> {
        let (over, variable) = (arguments[0], arguments[1]);
        let Ast::Ident(variable_name) = &variable.expr else {
            let message = format!("`{}` takes a variable first", kind.name());
            let fix = format!("write `list.{}(x, …)`", kind.name());
            return Err(self.error(variable, ExprErrorKind::Syntax, message, &fix));
        };
        let over = self.lower(over)?;
        if self.bound.len() == COMPREHENSION_DEPTH_MAX {
            let message = format!("`{}` may be nested inside one other, not two", kind.name());
            return Err(self.too_costly(tree, &message));
        }
        self.bound.push(variable_name.as_str().into());
        let filter = match arguments {
            [_, _, filter, _] => Some(self.lower(filter)?),
            _ => None,
        };
        let body = self.lower(arguments[arguments.len() - 1])?;
        self.bound.pop();
        let variable = variable_name.as_str().into();
        Ok(Kind::Each(Box::new(Each {
            kind,
            over,
            variable,
            filter,
            body,
        })))
    }
}

/// `of["field"]`, which is `of.field`.
pub(super) fn text_index(call: &CallExpr) -> Option<(&IdedExpr, &str)> {
    let [of, index] = call.args.as_slice() else {
        return None;
    };
    if call.func_name == operators::INDEX
        && let Ast::Literal(LiteralValue::String(field)) = &index.expr
    {
        return Some((of, field.inner()));
    }
    None
}

fn split_last(
    fields: Box<[Box<str>]>,
    rebuild: impl FnOnce(Box<[Box<str>]>) -> Kind,
) -> Option<(Kind, Box<str>)> {
    let mut fields = fields.into_vec();
    let last = fields.pop()?;
    Some((rebuild(fields.into()), last))
}

/// Compiles a pattern within the smallest size it fits, which is what its use is charged by.
fn compile_pattern(source: &str) -> Result<Pattern, String> {
    let mut bytes = 4 * 1024;
    loop {
        match RegexBuilder::new(source)
            .size_limit(bytes)
            .dfa_size_limit(1 << 20)
            .build()
        {
            Ok(regex) => {
                return Ok(Pattern {
                    source: source.into(),
                    regex,
                    steps_per_kib: bytes / 32,
                });
            }
            Err(regex::Error::CompiledTooBig(_)) if bytes < PATTERN_BYTES_MAX => bytes *= 2,
            Err(regex::Error::CompiledTooBig(_)) => return Err("it is too large".to_owned()),
            Err(error) => {
                let said = error.to_string();
                return Err(said
                    .lines()
                    .last()
                    .unwrap_or("it cannot be read")
                    .to_owned());
            }
        }
    }
}

fn operator(name: &str) -> Option<Operator> {
    Some(match name {
        operators::ADD => Operator::Add,
        operators::SUBSTRACT => Operator::Subtract,
        operators::MULTIPLY => Operator::Multiply,
        operators::DIVIDE => Operator::Divide,
        operators::MODULO => Operator::Remainder,
        _ => return None,
    })
}

fn is_sum(name: &str) -> bool {
    matches!(name, operators::ADD | operators::SUBSTRACT)
}

fn operator_class(name: &str) -> Option<bool> {
    operator(name).map(|_| is_sum(name))
}

fn relation(name: &str) -> Option<Relation> {
    Some(match name {
        operators::EQUALS => Relation::Equal,
        operators::NOT_EQUALS => Relation::NotEqual,
        operators::LESS => Relation::Less,
        operators::LESS_EQUALS => Relation::LessOrEqual,
        operators::GREATER => Relation::Greater,
        operators::GREATER_EQUALS => Relation::GreaterOrEqual,
        operators::IN => Relation::In,
        _ => return None,
    })
}

/// The comprehension of that name, with receiver and variable among its arguments.
fn each_kind(name: &str, count: usize) -> Option<EachKind> {
    Some(match (name, count) {
        (operators::ALL, 3) => EachKind::All,
        (operators::EXISTS, 3) => EachKind::Exists,
        (operators::EXISTS_ONE | "existsOne", 3) => EachKind::ExistsOne,
        (operators::MAP, 3 | 4) => EachKind::Map,
        (operators::FILTER, 3) => EachKind::Filter,
        _ => return None,
    })
}
