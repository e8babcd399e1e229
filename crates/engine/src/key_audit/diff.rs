//! Where two payloads differ.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The most paths of one pair of payloads.
const PATHS_MAX: usize = 64;

/// How deep payloads are compared; what differs below differs here.
const DEPTH_MAX: usize = 16;

/// The paths at which two values differ, each once. A list's elements are `[]`.
pub(super) fn differing_paths(first: &Value, other: &Value) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    compare(first, other, &mut String::new(), 0, &mut paths);
    paths
}

fn compare(
    first: &Value,
    other: &Value,
    path: &mut String,
    depth: usize,
    paths: &mut BTreeSet<String>,
) {
    if first == other || paths.len() >= PATHS_MAX {
        return;
    }
    match (first, other) {
        (Value::Object(first), Value::Object(other)) if depth < DEPTH_MAX => {
            compare_fields(first, other, path, depth, paths);
        }
        (Value::Array(first), Value::Array(other))
            if depth < DEPTH_MAX && first.len() == other.len() =>
        {
            for (first, other) in first.iter().zip(other) {
                within(path, "[]", |path| {
                    compare(first, other, path, depth + 1, paths);
                });
            }
        }
        _ => {
            let whole = path.is_empty();
            paths.insert(if whole { ".".to_owned() } else { path.clone() });
        }
    }
}

fn compare_fields(
    first: &Map<String, Value>,
    other: &Map<String, Value>,
    path: &mut String,
    depth: usize,
    paths: &mut BTreeSet<String>,
) {
    let names: BTreeSet<&String> = first.keys().chain(other.keys()).collect();
    for name in names {
        let (first, other) = (first.get(name), other.get(name));
        let dotted = if path.is_empty() {
            name.clone()
        } else {
            format!(".{name}")
        };
        within(path, &dotted, |path| match (first, other) {
            (Some(first), Some(other)) => compare(first, other, path, depth + 1, paths),
            _ => drop(paths.insert(path.clone())),
        });
    }
}

fn within(path: &mut String, part: &str, work: impl FnOnce(&mut String)) {
    let len = path.len();
    path.push_str(part);
    work(path);
    path.truncate(len);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_fields_that_differ_are_reported() {
        let first = json!({"id": 1, "at": 5, "lines": [{"sku": "a", "n": 1}, {"sku": "b", "n": 1}], "gone": 1});
        let other = json!({"id": 1, "at": 6, "lines": [{"sku": "a", "n": 2}, {"sku": "b", "n": 3}], "new": 1});

        let paths: Vec<String> = differing_paths(&first, &other).into_iter().collect();

        assert_eq!(paths, ["at", "gone", "lines[].n", "new"]);
    }

    #[test]
    fn values_that_have_nothing_in_common_differ_as_a_whole() {
        let paths = differing_paths(&json!(1), &json!("1"));
        assert_eq!(paths.into_iter().collect::<Vec<_>>(), ["."]);
    }
}
