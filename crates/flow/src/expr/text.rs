//! The one canonical spelling of a lowered tree, from which it can be read again.

use std::fmt::{self, Display, Formatter, Write};

use super::syntax::{Each, Kind, Literal, Node, Operator, Relation, Root};

/// How tightly a node binds; a looser one inside a tighter one is bracketed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    If,
    Or,
    And,
    Relation,
    Sum,
    Product,
    Unary,
    Member,
}

impl Display for Node {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Literal(literal) => write!(f, "{literal}"),
            Kind::Path(Root::Name(name) | Root::Bound(_, name), fields) => {
                f.write_str(name)?;
                fields.iter().try_for_each(|field| access(f, field))
            }
            Kind::Field(of, fields) => {
                inside(f, of, Binding::Member)?;
                fields.iter().try_for_each(|field| access(f, field))
            }
            Kind::Has(of, field) => {
                write!(f, "has({of}")?;
                access(f, field)?;
                f.write_char(')')
            }
            Kind::Index(of, index) => {
                inside(f, of, Binding::Member)?;
                write!(f, "[{index}]")
            }
            Kind::Not(of) => unary(f, "!", of),
            Kind::Negate(of) => unary(f, "-", of),
            Kind::Chain(first, rest) => chain(f, first, rest),
            Kind::Compare(relation, left, right) => {
                inside(f, left, Binding::Relation)?;
                write!(f, " {relation} ")?;
                inside(f, right, Binding::Sum)
            }
            Kind::And(terms) => joined(f, terms, " && ", Binding::Relation),
            Kind::Or(terms) => joined(f, terms, " || ", Binding::And),
            Kind::If(parts) => {
                let [test, then, other] = &**parts;
                inside(f, test, Binding::Or)?;
                f.write_str(" ? ")?;
                inside(f, then, Binding::Or)?;
                f.write_str(" : ")?;
                inside(f, other, Binding::If)
            }
            Kind::List(items) => {
                f.write_char('[')?;
                joined(f, items, ", ", Binding::If)?;
                f.write_char(']')
            }
            Kind::Map(entries) => map(f, entries),
            Kind::Call(builtin, arguments) => call(f, builtin.name(), arguments),
            Kind::Default(arguments) => call(f, "default", &**arguments),
            Kind::Matches(of, pattern) => {
                write!(
                    f,
                    "matches({of}, {})",
                    Literal::Text(pattern.source.clone())
                )
            }
            Kind::Each(each) => comprehension(f, each),
        }
    }
}

fn binding(node: &Node) -> Binding {
    match &node.kind {
        Kind::If(_) => Binding::If,
        Kind::Or(_) => Binding::Or,
        Kind::And(_) => Binding::And,
        Kind::Compare(..) => Binding::Relation,
        Kind::Chain(_, rest) => operator_binding(rest),
        Kind::Not(_) | Kind::Negate(_) => Binding::Unary,
        // `-0[a]` and `0.a` read otherwise than they look: a number is bracketed before a member.
        Kind::Literal(Literal::Int(_) | Literal::Double(_)) => Binding::Unary,
        Kind::Literal(_)
        | Kind::Path(..)
        | Kind::Field(..)
        | Kind::Has(..)
        | Kind::Index(..)
        | Kind::List(_)
        | Kind::Map(_)
        | Kind::Call(..)
        | Kind::Default(_)
        | Kind::Matches(..)
        | Kind::Each(_) => Binding::Member,
    }
}

fn operator_binding(rest: &[(Operator, Node)]) -> Binding {
    match rest.first() {
        Some((Operator::Add | Operator::Subtract, _)) => Binding::Sum,
        Some((Operator::Multiply | Operator::Divide | Operator::Remainder, _)) | None => {
            Binding::Product
        }
    }
}

/// Writes a node where at least this binding is needed.
fn inside(f: &mut Formatter<'_>, node: &Node, needed: Binding) -> fmt::Result {
    if binding(node) < needed {
        write!(f, "({node})")
    } else {
        write!(f, "{node}")
    }
}

fn unary(f: &mut Formatter<'_>, sign: &str, of: &Node) -> fmt::Result {
    f.write_str(sign)?;
    inside(f, of, Binding::Member)
}

/// Every operand binds tighter than the chain: one that bound alike would have joined it.
fn chain(f: &mut Formatter<'_>, first: &Node, rest: &[(Operator, Node)]) -> fmt::Result {
    let sums = operator_binding(rest) == Binding::Sum;
    let needed = if sums {
        Binding::Product
    } else {
        Binding::Unary
    };
    inside(f, first, needed)?;
    rest.iter().try_for_each(|(operator, node)| {
        write!(f, " {operator} ")?;
        inside(f, node, needed)
    })
}

fn joined(f: &mut Formatter<'_>, nodes: &[Node], by: &str, needed: Binding) -> fmt::Result {
    nodes.iter().enumerate().try_for_each(|(index, node)| {
        if index > 0 {
            f.write_str(by)?;
        }
        inside(f, node, needed)
    })
}

fn map(f: &mut Formatter<'_>, entries: &[(Node, Node)]) -> fmt::Result {
    f.write_char('{')?;
    for (index, (key, value)) in entries.iter().enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        write!(f, "{comma}{key}: {value}")?;
    }
    f.write_char('}')
}

fn call(f: &mut Formatter<'_>, name: &str, arguments: &[Node]) -> fmt::Result {
    write!(f, "{name}(")?;
    joined(f, arguments, ", ", Binding::If)?;
    f.write_char(')')
}

fn comprehension(f: &mut Formatter<'_>, each: &Each) -> fmt::Result {
    inside(f, &each.over, Binding::Member)?;
    write!(f, ".{}({}, ", each.kind.name(), each.variable)?;
    if let Some(filter) = &each.filter {
        write!(f, "{filter}, ")?;
    }
    write!(f, "{})", each.body)
}

/// `.field`, or `["field"]` where the field is not a name.
fn access(f: &mut Formatter<'_>, field: &str) -> fmt::Result {
    if super::parse::is_name(field) {
        write!(f, ".{field}")
    } else {
        write!(f, "[{}]", Literal::Text(field.into()))
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Double(value) => write!(f, "{value:?}"),
            // JSON's escapes are all known to CEL.
            Self::Text(text) => write!(f, "{}", serde_json::Value::from(&**text)),
        }
    }
}

impl Display for Operator {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        })
    }
}

impl Display for Relation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::In => "in",
        })
    }
}
