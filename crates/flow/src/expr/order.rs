//! Equality and order, across the two kinds of numbers as CEL has it.

use std::cmp::Ordering;

use super::error::EvalErrorKind;
use super::fuel::Fuel;
use super::value::{List, Map, Val};

/// Text compared or searched per step of fuel.
pub(crate) const BYTES_PER_STEP: usize = 64;

/// Whether two values are equal; values of different types are not.
pub(crate) fn equal(
    fuel: &mut Fuel,
    left: &Val<'_>,
    right: &Val<'_>,
) -> Result<bool, EvalErrorKind> {
    fuel.step()?;
    match (left, right) {
        (Val::Null, Val::Null) => Ok(true),
        (Val::Bool(left), Val::Bool(right)) => Ok(left == right),
        (Val::Text(left), Val::Text(right)) => {
            fuel.burn_for(left.as_str().len(), BYTES_PER_STEP)?;
            Ok(left.as_str() == right.as_str())
        }
        (Val::List(left), Val::List(right)) => lists_equal(fuel, left, right),
        (Val::Map(left), Val::Map(right)) => maps_equal(fuel, left, right),
        _ => Ok(numbers(left, right) == Some(Ordering::Equal)),
    }
}

fn lists_equal(fuel: &mut Fuel, left: &List<'_>, right: &List<'_>) -> Result<bool, EvalErrorKind> {
    if left.len() != right.len() {
        return Ok(false);
    }
    for (left, right) in left.iter().zip(right.iter()) {
        if !equal(fuel, &left?, &right?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn maps_equal(fuel: &mut Fuel, left: &Map<'_>, right: &Map<'_>) -> Result<bool, EvalErrorKind> {
    if left.len() != right.len() {
        return Ok(false);
    }
    fuel.burn(left.len())?;
    for key in left.keys() {
        fuel.burn_for(key.as_str().len(), BYTES_PER_STEP)?;
        let (Some(left), Some(right)) = (left.get(key.as_str()), right.get(key.as_str())) else {
            return Ok(false);
        };
        if !equal(fuel, &left?, &right?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Orders two values of one type, numbers of either kind being one type.
pub(crate) fn order(
    fuel: &mut Fuel,
    left: &Val<'_>,
    right: &Val<'_>,
) -> Result<Option<Ordering>, EvalErrorKind> {
    match (left, right) {
        (Val::Bool(left), Val::Bool(right)) => Ok(Some(left.cmp(right))),
        (Val::Text(left), Val::Text(right)) => {
            fuel.burn_for(left.as_str().len(), BYTES_PER_STEP)?;
            Ok(Some(left.as_str().cmp(right.as_str())))
        }
        (Val::Int(_) | Val::Double(_), Val::Int(_) | Val::Double(_)) => Ok(numbers(left, right)),
        (Val::Int(_) | Val::Double(_), other) => Err(unlike("a number", other)),
        (Val::Bool(_), other) => Err(unlike("a bool", other)),
        (Val::Text(_), other) => Err(unlike("a string", other)),
        (other @ (Val::Null | Val::List(_) | Val::Map(_)), _) => {
            Err(unlike("numbers, strings or bools", other))
        }
    }
}

fn unlike(expected: &'static str, found: &Val<'_>) -> EvalErrorKind {
    EvalErrorKind::Type {
        operation: "comparing",
        expected,
        found: found.type_name(),
    }
}

fn numbers(left: &Val<'_>, right: &Val<'_>) -> Option<Ordering> {
    match (left, right) {
        (Val::Int(left), Val::Int(right)) => Some(left.cmp(right)),
        (Val::Double(left), Val::Double(right)) => left.partial_cmp(right),
        (Val::Int(left), Val::Double(right)) => int_to_double(*left, *right),
        (Val::Double(left), Val::Int(right)) => int_to_double(*right, *left).map(Ordering::reverse),
        _ => None,
    }
}

/// Compares without rounding the integer, which as a double could meet its neighbour.
fn int_to_double(int: i64, double: f64) -> Option<Ordering> {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    if double.is_nan() {
        None
    } else if double >= TWO_TO_63 {
        Some(Ordering::Less)
    } else if double < -TWO_TO_63 {
        Some(Ordering::Greater)
    } else {
        let whole = double.trunc();
        Some(
            int.cmp(&(whole as i64))
                .then_with(|| 0.0_f64.total_cmp(&(double - whole + 0.0))),
        )
    }
}
