//! `+ - * / %`: what overflows is an error, never another number.

use super::error::EvalErrorKind;
use super::fuel::Fuel;
use super::limits::LIST_LEN_MAX;
use super::syntax::Operator;
use super::value::{List, Text, Val};

/// Applies an operator to two values of one type.
pub(crate) fn apply<'a>(
    fuel: &mut Fuel,
    operator: Operator,
    left: Val<'a>,
    right: Val<'a>,
) -> Result<Val<'a>, EvalErrorKind> {
    match (left, right) {
        (Val::Int(left), Val::Int(right)) => ints(operator, left, right),
        (Val::Double(left), Val::Double(right)) => doubles(operator, left, right),
        // JSON does not tell 1 from 1.0, so neither do sums.
        (Val::Int(left), Val::Double(right)) => doubles(operator, left as f64, right),
        (Val::Double(left), Val::Int(right)) => doubles(operator, left, right as f64),
        (Val::Text(left), Val::Text(right)) if operator == Operator::Add => {
            concat(fuel, left.as_str(), right.as_str())
        }
        (Val::List(left), Val::List(right)) if operator == Operator::Add => {
            join(fuel, &left, &right)
        }
        (left, right) => Err(mismatch(operator, &left, &right)),
    }
}

pub(crate) fn negate(value: &Val<'_>) -> Result<Val<'static>, EvalErrorKind> {
    match value {
        Val::Int(value) => value
            .checked_neg()
            .map(Val::Int)
            .ok_or(EvalErrorKind::Overflow("-")),
        Val::Double(value) => Ok(Val::Double(-value)),
        Val::Null | Val::Bool(_) | Val::Text(_) | Val::List(_) | Val::Map(_) => {
            Err(EvalErrorKind::Type {
                operation: "-",
                expected: "a number",
                found: value.type_name(),
            })
        }
    }
}

fn ints(operator: Operator, left: i64, right: i64) -> Result<Val<'static>, EvalErrorKind> {
    if right == 0 && matches!(operator, Operator::Divide | Operator::Remainder) {
        return Err(EvalErrorKind::DivisionByZero);
    }
    let value = match operator {
        Operator::Add => left.checked_add(right),
        Operator::Subtract => left.checked_sub(right),
        Operator::Multiply => left.checked_mul(right),
        Operator::Divide => left.checked_div(right),
        Operator::Remainder => left.checked_rem(right),
    };
    value
        .map(Val::Int)
        .ok_or(EvalErrorKind::Overflow(name(operator)))
}

fn doubles(operator: Operator, left: f64, right: f64) -> Result<Val<'static>, EvalErrorKind> {
    Ok(Val::Double(match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide if right == 0.0 => return Err(EvalErrorKind::DivisionByZero),
        Operator::Divide => left / right,
        Operator::Remainder => {
            return Err(EvalErrorKind::Type {
                operation: "%",
                expected: "integers",
                found: "double",
            });
        }
    }))
}

fn concat(fuel: &mut Fuel, left: &str, right: &str) -> Result<Val<'static>, EvalErrorKind> {
    let len = left.len() + right.len();
    fuel.make(len)?;
    fuel.burn_for(len, 1024)?;
    let mut text = String::with_capacity(len);
    text.push_str(left);
    text.push_str(right);
    Ok(Val::Text(Text::Made(text.into())))
}

fn join<'a>(fuel: &mut Fuel, left: &List<'a>, right: &List<'a>) -> Result<Val<'a>, EvalErrorKind> {
    let len = left.len() + right.len();
    if len > LIST_LEN_MAX {
        return Err(EvalErrorKind::Limit("list"));
    }
    fuel.make(len * size_of::<Val<'_>>())?;
    fuel.burn_for(len, 8)?;
    let items = left
        .iter()
        .chain(right.iter())
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Val::List(List::Made(items.into())))
}

fn mismatch(operator: Operator, left: &Val<'_>, right: &Val<'_>) -> EvalErrorKind {
    let expected = match left {
        Val::Text(_) if operator == Operator::Add => "a string: write `string(…)` around the other",
        Val::List(_) if operator == Operator::Add => "a list",
        Val::Int(_) | Val::Double(_) => "a number",
        Val::Null | Val::Bool(_) | Val::Text(_) | Val::List(_) | Val::Map(_) => {
            return EvalErrorKind::Type {
                operation: name(operator),
                expected: "numbers",
                found: left.type_name(),
            };
        }
    };
    EvalErrorKind::Type {
        operation: name(operator),
        expected,
        found: right.type_name(),
    }
}

const fn name(operator: Operator) -> &'static str {
    match operator {
        Operator::Add => "+",
        Operator::Subtract => "-",
        Operator::Multiply => "*",
        Operator::Divide => "/",
        Operator::Remainder => "%",
    }
}
