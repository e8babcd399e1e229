//! Where two payloads differ, by JSON pointer.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::console::markup::{self, Markup, Whole};

/// The most places at which two payloads are shown to differ.
const DIFFERENCES_MAX: usize = 100;

/// The most characters of a place that are shown.
const PLACE_CHARS_MAX: usize = 256;

/// How deep payloads are compared.
const DEPTH_MAX: usize = 16;

/// Where two payloads differ, by JSON pointer.
pub(super) fn differences(first: &Value, other: &Value, whole: &Whole) -> Markup {
    let mut found = Vec::new();
    compare(first, other, &mut String::new(), 0, &mut found);
    let cut = found.len() > DIFFERENCES_MAX;
    found.truncate(DIFFERENCES_MAX);
    let side = |value: Option<Value>| match value {
        Some(value) => markup::block(&value.to_string(), whole),
        None => Markup::text("not there").within("span", "quiet-text"),
    };
    let rows: Vec<Vec<Markup>> = found
        .into_iter()
        .map(|(path, first, other)| vec![markup::code(&path), side(first), side(other)])
        .collect();
    let table = markup::table("Differences", &["Where", "First", "Repeat"], &rows);
    match cut {
        true => Markup::join([
            table,
            Markup::fixed("<p class=\"help\">There are more differences.</p>"),
        ]),
        false => table,
    }
}

type Difference = (String, Option<Value>, Option<Value>);

fn compare(
    first: &Value,
    other: &Value,
    path: &mut String,
    depth: usize,
    found: &mut Vec<Difference>,
) {
    if first == other || found.len() > DIFFERENCES_MAX {
        return;
    }
    match (first, other) {
        (Value::Object(one), Value::Object(two)) if depth < DEPTH_MAX => {
            let names: BTreeSet<&String> = one.keys().chain(two.keys()).collect();
            for name in names {
                if found.len() > DIFFERENCES_MAX {
                    return;
                }
                let part = name.replace('~', "~0").replace('/', "~1");
                below(path, &part, (one.get(name), two.get(name)), depth, found);
            }
        }
        (Value::Array(one), Value::Array(two)) if depth < DEPTH_MAX => {
            for index in 0..one.len().max(two.len()) {
                if found.len() > DIFFERENCES_MAX {
                    return;
                }
                let part = index.to_string();
                below(path, &part, (one.get(index), two.get(index)), depth, found);
            }
        }
        _ => {
            let place = if path.is_empty() { "/" } else { path.as_str() };
            found.push((shown(place), Some(first.clone()), Some(other.clone())));
        }
    }
}

/// A place in a payload, short enough to be shown: senders choose its names.
fn shown(path: &str) -> String {
    match path.char_indices().nth(PLACE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &path[..end]),
        None => path.to_owned(),
    }
}

fn below(
    path: &mut String,
    part: &str,
    pair: (Option<&Value>, Option<&Value>),
    depth: usize,
    found: &mut Vec<Difference>,
) {
    if found.len() > DIFFERENCES_MAX {
        return;
    }
    let len = path.len();
    path.push('/');
    path.push_str(part);
    match pair {
        (Some(first), Some(other)) => compare(first, other, path, depth + 1, found),
        (first, other) => found.push((shown(path), first.cloned(), other.cloned())),
    }
    path.truncate(len);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hostile_payloads_make_a_short_list_of_short_places() {
        let name = "x".repeat(10_000);
        let many: Vec<u32> = (0..100_000).collect();
        let mut found = Vec::new();
        let (first, other) = (json!({ name.clone(): [] }), json!({ name: many }));

        compare(&first, &other, &mut String::new(), 0, &mut found);

        assert_eq!(found.len(), DIFFERENCES_MAX + 1);
        let longest = found.iter().map(|(place, ..)| place.chars().count()).max();
        assert_eq!(longest, Some(PLACE_CHARS_MAX + 1));
    }

    #[test]
    fn payloads_differ_by_pointer() {
        let mut found = Vec::new();
        let (first, other) = (
            json!({"id": 1, "a/b": [1, 2], "gone": true}),
            json!({"id": 1, "a/b": [1, 3, 4]}),
        );

        compare(&first, &other, &mut String::new(), 0, &mut found);

        let places: Vec<&str> = found.iter().map(|(place, ..)| place.as_str()).collect();
        assert_eq!(places, ["/a~1b/1", "/a~1b/2", "/gone"]);
    }
}
