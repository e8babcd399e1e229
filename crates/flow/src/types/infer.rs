//! The type of an expression, and where its parts cannot go together.

use super::{Field, Fields, Type};
use crate::expr::{Builtin, Kind, Literal, Node, Operator, Relation, Root, each_child};
use crate::nearest::nearest;

/// Two parts of an expression that cannot go together.
#[derive(Debug)]
pub(crate) struct Problem {
    /// Where in the expression's text it stands.
    pub(crate) at: usize,
    pub(crate) message: String,
    pub(crate) fix: String,
}

/// What is known behind a name and the first fields of a path, and how many fields those are.
pub(crate) type Known<'k> = dyn Fn(&str, &[Box<str>]) -> Option<(&'k Type, usize)> + 'k;

/// Computes the type of an expression over the types of its names. What is not known is
/// [`Type::Any`]; a problem is reported only if no value could make it right.
pub(crate) fn infer(node: &Node, root: &Known<'_>, problems: &mut Vec<Problem>) -> Type {
    let mut inference = Inference { root, problems };
    inference.node(node)
}

struct Inference<'i, 'k> {
    root: &'i Known<'k>,
    problems: &'i mut Vec<Problem>,
}

impl Inference<'_, '_> {
    fn node(&mut self, node: &Node) -> Type {
        match &node.kind {
            Kind::Literal(literal) => match literal {
                Literal::Null => Type::Null,
                Literal::Bool(_) => Type::Bool,
                Literal::Int(_) => Type::Int,
                Literal::Double(_) => Type::Double,
                Literal::Text(_) => Type::Text,
            },
            Kind::Path(Root::Name(name), fields) => match (self.root)(name, fields) {
                Some((from, taken)) => {
                    let (before, rest) = fields.split_at(taken.min(fields.len()));
                    let path = before
                        .iter()
                        .fold(name.to_string(), |path, field| format!("{path}.{field}"));
                    self.fields(node, path, from, rest)
                }
                None => Type::Any,
            },
            Kind::Path(Root::Bound(..), _) => Type::Any,
            Kind::Not(of) => {
                let found = self.node(of);
                self.expect(of, &found, "`!`", "a bool", |one| *one == Type::Bool);
                Type::Bool
            }
            Kind::And(parts) | Kind::Or(parts) => {
                for part in parts {
                    let found = self.node(part);
                    let expects = "a bool";
                    self.expect(part, &found, "a condition", expects, |one| {
                        *one == Type::Bool
                    });
                }
                Type::Bool
            }
            Kind::Compare(relation, left, right) => {
                let (one, other) = (self.node(left), self.node(right));
                self.compare(node, *relation, &one, &other);
                Type::Bool
            }
            Kind::Chain(first, rest) => self.chain(first, rest),
            Kind::If(parts) => {
                let [test, then, other] = &**parts;
                let found = self.node(test);
                self.expect(test, &found, "a choice", "a bool", |one| *one == Type::Bool);
                either(self.node(then), self.node(other))
            }
            Kind::Default(parts) => {
                self.node(&parts[0]);
                self.node(&parts[1]);
                Type::Any
            }
            Kind::Call(builtin, arguments) => self.call(*builtin, arguments),
            Kind::Has(..) => Type::Bool,
            Kind::Matches(of, _) => {
                let found = self.node(of);
                self.expect(of, &found, "`matches`", "a string", |one| {
                    *one == Type::Text
                });
                Type::Bool
            }
            Kind::List(_) => {
                each_child(node, &mut |child| {
                    self.node(child);
                });
                Type::List(Box::new(Type::Any))
            }
            Kind::Map(entries) => self.map(entries),
            Kind::Field(..) | Kind::Index(..) | Kind::Negate(_) | Kind::Each(_) => {
                each_child(node, &mut |child| {
                    self.node(child);
                });
                Type::Any
            }
        }
    }

    fn fields(&mut self, node: &Node, mut path: String, from: &Type, rest: &[Box<str>]) -> Type {
        let mut found = from;
        for field in rest {
            found = match found {
                Type::Map(map) => match map.known.get(&**field) {
                    Some(known) => &known.value,
                    None => {
                        self.unknown_field(node, &path, field, map);
                        return Type::Any;
                    }
                },
                Type::Any | Type::Union(_) => return Type::Any,
                Type::Null | Type::Bool | Type::Int | Type::Double | Type::Text | Type::List(_) => {
                    let message = format!("`{path}` is a {}, which has no `{field}`", found.name());
                    let fix = "the field may be in another place";
                    self.problem(node, message, fix);
                    return Type::Any;
                }
            };
            path = format!("{path}.{field}");
        }
        found.clone()
    }

    /// A map that is written out has the fields that are written, and no others.
    fn map(&mut self, entries: &[(Node, Node)]) -> Type {
        let mut fields = Fields {
            closed: true,
            ..Fields::default()
        };
        for (key, value) in entries {
            let value = self.node(value);
            if let Kind::Literal(Literal::Text(name)) = &key.kind {
                let required = true;
                let field = Field { value, required };
                fields.known.insert(name.to_string(), field);
            } else {
                fields.closed = false;
            }
        }
        Type::Map(fields)
    }

    /// A field that is not known is a slip where a known one is near, or where there are no others.
    fn unknown_field(&mut self, node: &Node, path: &str, field: &str, map: &Fields) {
        let near = nearest(field, map.known.keys().map(String::as_str));
        if near.is_none() && !map.closed {
            return;
        }
        let message = format!("`{path}` has no `{field}`");
        let names: Vec<&str> = map.known.keys().map(String::as_str).collect();
        let fix = match near {
            Some(near) => format!("did you mean `{path}.{near}`?"),
            None => format!("it has: {}", names.join(", ")),
        };
        self.problem(node, message, &fix);
    }

    fn compare(&mut self, node: &Node, relation: Relation, one: &Type, other: &Type) {
        let alike = match relation {
            Relation::Equal | Relation::NotEqual | Relation::In => return,
            Relation::Less
            | Relation::LessOrEqual
            | Relation::Greater
            | Relation::GreaterOrEqual => {
                one.may_be(|one| other.may_be(|other| ordered(one, other)))
            }
        };
        if !alike {
            let message = format!(
                "`{relation}` cannot compare a {} with a {}",
                one.name(),
                other.name()
            );
            let fix = "compare two numbers or two strings: `int(…)` and `string(…)` convert";
            self.problem(node, message, fix);
        }
    }

    fn chain(&mut self, first: &Node, rest: &[(Operator, Node)]) -> Type {
        let mut left = self.node(first);
        for (operator, node) in rest {
            let right = self.node(node);
            let sum = left.may_be(|one| right.may_be(|other| summed(*operator, one, other)));
            if !sum {
                let message = format!(
                    "`{operator}` cannot join a {} and a {}",
                    left.name(),
                    right.name()
                );
                let fix = "make both strings with `string(…)`, or both numbers with `int(…)`";
                self.problem(node, message, fix);
                return Type::Any;
            }
            left = if left == right { right } else { Type::Any };
        }
        left
    }

    fn call(&mut self, builtin: Builtin, arguments: &[Node]) -> Type {
        let types: Vec<Type> = arguments
            .iter()
            .map(|argument| self.node(argument))
            .collect();
        if let (true, Some(found), Some(node)) =
            (builtin.takes_text(), types.first(), arguments.first())
        {
            let name = format!("`{}`", builtin.name());
            self.expect(node, found, &name, "a string", |one| *one == Type::Text);
        }
        if let (Builtin::Size, [found], [node]) = (builtin, &types[..], arguments) {
            let counts = |one: &Type| matches!(one, Type::Text | Type::List(_) | Type::Map(_));
            if !found.may_be(counts) {
                let message = format!(
                    "`size` counts what a string, a list or a map has, not a {}",
                    found.name()
                );
                self.problem(node, message, "leave `size` out, or name a list beside it");
            }
        }
        yields(builtin)
    }

    fn expect(
        &mut self,
        node: &Node,
        found: &Type,
        what: &str,
        expected: &str,
        test: impl Fn(&Type) -> bool + Copy,
    ) {
        if !found.may_be(test) {
            let message = format!("{what} needs {expected}, not a {}", found.name());
            let fix = match expected {
                "a string" => "write `string(…)` around it",
                _ => "compare it with something: `… == true`, `… != null`, `… > 0`",
            };
            self.problem(node, message, fix);
        }
    }

    fn problem(&mut self, node: &Node, message: String, fix: &str) {
        self.problems.push(Problem {
            at: node.at,
            message,
            fix: fix.to_owned(),
        });
    }
}

fn either(one: Type, other: Type) -> Type {
    if one == other { one } else { Type::Any }
}

fn ordered(one: &Type, other: &Type) -> bool {
    (one.is_number() && other.is_number())
        || (*one == Type::Text && *other == Type::Text)
        || (*one == Type::Bool && *other == Type::Bool)
}

fn summed(operator: Operator, one: &Type, other: &Type) -> bool {
    let added = match operator {
        Operator::Add => {
            (*one == Type::Text && *other == Type::Text)
                || matches!((one, other), (Type::List(_), Type::List(_)))
        }
        Operator::Subtract | Operator::Multiply | Operator::Divide | Operator::Remainder => false,
    };
    added || (one.is_number() && other.is_number())
}

/// The type of what a function gives.
fn yields(builtin: Builtin) -> Type {
    match builtin {
        Builtin::Size | Builtin::Int | Builtin::Epoch => Type::Int,
        Builtin::Double => Type::Double,
        Builtin::Bool | Builtin::StartsWith | Builtin::EndsWith | Builtin::Contains => Type::Bool,
        Builtin::Split => Type::List(Box::new(Type::Text)),
        Builtin::ParseJson => Type::Any,
        Builtin::String
        | Builtin::Type
        | Builtin::Lower
        | Builtin::Upper
        | Builtin::Trim
        | Builtin::Join
        | Builtin::Replace
        | Builtin::Sha256
        | Builtin::HmacSha256
        | Builtin::Json
        | Builtin::Fingerprint
        | Builtin::Date
        | Builtin::Rfc3339 => Type::Text,
    }
}
