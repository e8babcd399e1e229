//! Which of two deliveries about one object is newer.

use semel_model::Version;
use serde::Serialize;
use serde_json::Value;

use crate::expr::{Expr, Scope};
use crate::grammar::{FieldType, MapSchema, Place, field};
use crate::tree::Record;

pub(super) static ORDER_SCHEMA: MapSchema = MapSchema::new(
    ("`order`", "order"),
    "Deliveries about one object, in order.",
    &[
        field("object", FieldType::Expr(Place::Start), "The object.").needed("input.id"),
        field(
            "version",
            FieldType::Expr(Place::Start),
            "Its version: a number or a time that grows.",
        )
        .needed("input.version"),
    ],
);

/// The longest text that is an object.
const OBJECT_BYTES_MAX: usize = 1_024;

/// Which delivery about one object is newer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Order {
    /// The object.
    pub object: Expr,
    /// Its version.
    pub version: Expr,
}

/// The order that a trigger declares.
pub(super) fn lower(trigger: &Record) -> Option<Order> {
    let record = trigger.map("order")?;
    Some(Order {
        object: record.expr("object")?.expr.clone(),
        version: record.expr("version")?.expr.clone(),
    })
}

impl Order {
    /// The object and the version of a delivery.
    ///
    /// # Errors
    ///
    /// If one of them cannot be determined, in words.
    pub fn tell(&self, scope: &Scope<'_>) -> Result<(String, Version), String> {
        let object =
            object(&self.object, scope).map_err(|error| format!("`order.object`: {error}"))?;
        let version = self.version.eval(scope);
        let version = version.map_err(|error| format!("`order.version`: {error}"))?;
        let version =
            Version::read(&version).map_err(|error| format!("`order.version`: {error}"))?;
        Ok((object, version))
    }
}

/// The object that an expression names, where there is one; the flow as a whole otherwise.
///
/// # Errors
///
/// If it cannot be determined, in words.
pub fn object_of(key: Option<&Expr>, scope: &Scope<'_>) -> Result<String, String> {
    key.map_or_else(|| Ok(String::new()), |key| object(key, scope))
}

/// An object of no name would be the flow as a whole.
fn object(key: &Expr, scope: &Scope<'_>) -> Result<String, String> {
    let text = match key.eval(scope).map_err(|error| error.to_string())? {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        Value::Null => return Err("it is null".to_owned()),
        Value::Bool(_) => return Err("it is true or false".to_owned()),
        Value::Array(_) | Value::Object(_) => {
            return Err("it is a list or a map: use fingerprint(…)".to_owned());
        }
    };
    match text.len() {
        0 => Err("it is empty".to_owned()),
        1..=OBJECT_BYTES_MAX if !text.contains('\0') => Ok(text),
        1..=OBJECT_BYTES_MAX => Err("it has the character zero in it".to_owned()),
        _ => Err(format!("it has more than {OBJECT_BYTES_MAX} bytes")),
    }
}
