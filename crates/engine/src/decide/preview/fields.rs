//! Where two requests differ, member by member. Requests name secrets and never hold them.

use std::collections::BTreeSet;

use semel_model::replay::ChangedField;
use semel_model::request::StepRequest;
use serde_json::Value;

/// The most members that are shown of one pair of requests.
const FIELDS_MAX: usize = 64;

/// How deep requests are compared; what differs below differs here.
const DEPTH_MAX: usize = 16;

/// The most characters of a text that is shown.
const TEXT_CHARS_MAX: usize = 500;

/// The members in which two requests differ.
pub(super) fn differing_fields(old: &StepRequest, new: &StepRequest) -> Vec<ChangedField> {
    let (old, new) = (body_of(old), body_of(new));
    let mut fields = Vec::new();
    compare(Some(&old), Some(&new), String::new(), &mut fields);
    fields
}

/// A request without the words that say of which kind it is: both are of one kind.
fn body_of(request: &StepRequest) -> Value {
    let mut value = serde_json::to_value(request).unwrap_or_default();
    while let Value::Object(fields) = &mut value
        && fields.len() == 1
        && let Some((name, inner)) = std::mem::take(fields).into_iter().next()
    {
        if !inner.is_object() {
            return Value::Object([(name, inner)].into_iter().collect());
        }
        value = inner;
    }
    value
}

/// The members of a text that is JSON: a body is compared by what it says.
fn parsed(value: &Value) -> Option<Value> {
    let text = value.as_str()?;
    let inner: Value = serde_json::from_str(text).ok()?;
    (inner.is_object() || inner.is_array()).then_some(inner)
}

fn compare(old: Option<&Value>, new: Option<&Value>, path: String, fields: &mut Vec<ChangedField>) {
    let depth = path.matches('/').count();
    if old == new || fields.len() >= FIELDS_MAX {
        return;
    }
    if let (Some(old), Some(new)) = (old.and_then(parsed), new.and_then(parsed)) {
        return compare(Some(&old), Some(&new), path, fields);
    }
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) if depth < DEPTH_MAX => {
            let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for name in names {
                let path = format!("{path}/{}", escape(name));
                compare(old.get(name), new.get(name), path, fields);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) if depth < DEPTH_MAX => {
            for index in 0..old.len().max(new.len()) {
                let path = format!("{path}/{index}");
                compare(old.get(index), new.get(index), path, fields);
            }
        }
        (old, new) => fields.push(ChangedField {
            path,
            old: old.map(cut),
            new: new.map(cut),
        }),
    }
}

/// A member's name as part of a JSON pointer.
fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// A value as it is shown: a long text is cut.
fn cut(value: &Value) -> Value {
    match value {
        Value::String(text) if text.chars().nth(TEXT_CHARS_MAX).is_some() => {
            let begin: String = text.chars().take(TEXT_CHARS_MAX).collect();
            Value::String(format!("{begin}…"))
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_differs_is_shown_with_both_values() {
        let old = json!({ "a/b": { "n": 1 }, "same": [1, 2], "gone": true });
        let new = json!({ "a/b": { "n": 2 }, "same": [1, 2, 3] });
        let mut fields = Vec::new();

        compare(Some(&old), Some(&new), String::new(), &mut fields);

        let shown: Vec<_> = fields
            .iter()
            .map(|it| json!([it.path, it.old, it.new]))
            .collect();
        assert_eq!(
            shown,
            [
                json!(["/a~1b/n", 1, 2]),
                json!(["/gone", true, null]),
                json!(["/same/2", null, 3]),
            ]
        );
    }
}
