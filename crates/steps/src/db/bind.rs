//! Values of a flow as parameters of a statement.
//!
//! Each goes out as text and is read by the input function of the parameter's own type: what is a
//! number, a moment or a uuid is the server's to say, and no value can be read as SQL.

use std::error::Error;
use std::fmt;

use bytes::BytesMut;
use semel_model::Fault;
use serde_json::{Number, Value};
use tokio_postgres::types::{Format, IsNull, Kind, ToSql, Type};

/// A value in the form in which its parameter's type reads it. It is never shown.
pub(super) struct Bound {
    text: Option<String>,
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Bound {
    /// Renders a value for a parameter of this type.
    pub(super) fn new(index: usize, value: &Value, to: &Type) -> Result<Self, Fault> {
        let text = render(value, to).map_err(|Unfit| {
            let message = format!(
                "the value for ${} is {} and the statement takes {to}",
                index + 1,
                kind(value)
            );
            Fault::permanent("values-unfit", message)
        })?;
        Ok(Self { text })
    }
}

/// A value of a kind that the type cannot take.
struct Unfit;

/// `None` is SQL's null.
fn render(value: &Value, to: &Type) -> Result<Option<String>, Unfit> {
    let base = base(to);
    if value.is_null() {
        return Ok(None);
    }
    if *base == Type::JSON || *base == Type::JSONB {
        return Ok(Some(value.to_string()));
    }
    match (value, base.kind()) {
        (Value::Array(items), Kind::Array(of)) => render_array(items, of).map(Some),
        (Value::Bool(yes), _) => Ok(Some(yes.to_string())),
        (Value::Number(number), _) => Ok(Some(render_number(number))),
        (Value::String(text), _) => Ok(Some(text.clone())),
        (Value::Array(_) | Value::Object(_) | Value::Null, _) => Err(Unfit),
    }
}

/// Domains are read as the type underneath.
fn base(of: &Type) -> &Type {
    if let Kind::Domain(inner) = of.kind() {
        base(inner)
    } else {
        of
    }
}

/// A whole number that an expression made a float of is still a whole number.
fn render_number(number: &Number) -> String {
    const EXACT_BELOW: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < EXACT_BELOW => {
            format!("{float:.0}")
        }
        Some(_) | None => number.to_string(),
    }
}

/// An array in PostgreSQL's own form, every element quoted.
fn render_array(items: &[Value], of: &Type) -> Result<String, Unfit> {
    let mut text = String::from("{");
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        let nested = matches!(item, Value::Array(_)) && !is_json(of);
        match item {
            Value::Array(inner) if nested => text.push_str(&render_array(inner, of)?),
            Value::Null => text.push_str("NULL"),
            Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => push_quoted(&mut text, &render(item, of)?.unwrap_or_default()),
        }
    }
    text.push('}');
    Ok(text)
}

fn is_json(of: &Type) -> bool {
    matches!(*base(of), Type::JSON | Type::JSONB)
}

fn push_quoted(text: &mut String, element: &str) {
    text.push('"');
    for letter in element.chars() {
        if matches!(letter, '"' | '\\') {
            text.push('\\');
        }
        text.push(letter);
    }
    text.push('"');
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

impl ToSql for Bound {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        Ok(match &self.text {
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                IsNull::No
            }
            None => IsNull::Yes,
        })
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(
        &self,
        to: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.to_sql(to, out)
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_elements_of_an_array_cannot_leave_it() {
        let rendered = render(&json!(["a\",\"b", "\\", null, "}"]), &Type::TEXT_ARRAY);

        assert!(
            matches!(rendered, Ok(Some(text)) if text == r#"{"a\",\"b","\\",NULL,"}"}"#),
            "quotes and backslashes are escaped"
        );
    }

    #[test]
    fn a_whole_float_is_a_whole_number() {
        let rendered = render(&json!(42.0), &Type::INT4);

        assert!(matches!(rendered, Ok(Some(text)) if text == "42"));
    }
}
