//! Finds the keys of a recipe in its text, so that one can be exchanged for another.

use semel_flow::provider;
use serde_json::Value;

/// What a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Trigger,
    Overlap,
    Object,
    Version,
    Item,
    Business,
}

/// A key and the text around it.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) role: Role,
    pub(crate) expr: String,
    /// Whether the recipe leaves it to its provider.
    pub(crate) from_preset: bool,
    before: String,
    after: String,
}

impl Key {
    /// The recipe with another key in this place.
    pub(crate) fn with(&self, expr: &str) -> String {
        let quoted = expr.replace('\'', "''");
        format!("{}'{quoted}'{}", self.before, self.after)
    }

    /// The same, with other steps in front of the one that holds the key.
    pub(crate) fn with_steps(&self, steps: &str, expr: &str) -> String {
        let at = self.before.rfind("\n  - id: ").map_or(0, |at| at + 1);
        let mut source = self.with(expr);
        source.insert_str(at, steps);
        source
    }

    /// What the innermost loop around the key calls its item.
    pub(crate) fn item(&self) -> Option<&str> {
        let nested = self.before.rfind("\n  - id: ")?;
        let name = self.before[nested..].split("\n      as: ").nth(1)?;
        name.lines().next()
    }

    /// Whether a step comes before the key.
    pub(crate) fn follows(&self, step: &str) -> bool {
        self.before.contains(&format!("- id: {step}\n"))
    }
}

/// Every key of a recipe, the one that comes with its provider included.
pub(crate) fn find(source: &str) -> Vec<Key> {
    let end = source.find("\nexamples:").unwrap_or(source.len());
    let mut keys = vec![];
    for field in ["key", "object", "version"] {
        let needle = format!("{field}: ");
        let mut from = 0;
        while let Some(at) = source[from..end].find(&needle).map(|at| at + from) {
            from = at + needle.len();
            let before = source[..at].chars().next_back();
            if before.is_some_and(|letter| " {\n".contains(letter))
                && let Some(role) = role(&source[..at], field)
            {
                let len = scalar(&source[from..]);
                keys.push(Key {
                    role,
                    expr: bare(&source[from..from + len]),
                    from_preset: false,
                    before: source[..from].to_owned(),
                    after: source[from + len..].to_owned(),
                });
            }
        }
    }
    keys.extend(preset(source));
    keys
}

/// How many keys the flow has by its canonical form.
pub(crate) fn count(tree: &Value) -> usize {
    match tree {
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| *name != "examples" && *name != "json")
            .map(|(name, value)| match name.as_str() {
                "key" => 1,
                "order" if value.is_object() => 2,
                _ => count(value),
            })
            .sum(),
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn role(before: &str, field: &str) -> Option<Role> {
    let line = before.rsplit('\n').next().unwrap_or_default().trim_start();
    let above = before.rsplit('\n').nth(1).unwrap_or_default().trim_start();
    match field {
        "object" if line.starts_with("order:") => Some(Role::Object),
        "version" if line.starts_with("order:") => Some(Role::Version),
        "key" if line.starts_with("overlap:") => Some(Role::Overlap),
        "key" if !before.contains("\nsteps:") => Some(Role::Trigger),
        "key" if above.starts_with("as:") => Some(Role::Item),
        "key" if line.is_empty() => Some(Role::Business),
        _ => None,
    }
}

/// The length of the scalar that a text begins with.
fn scalar(text: &str) -> usize {
    if let Some(rest) = text.strip_prefix('\'') {
        return rest.find('\'').map_or(text.len(), |end| end + 2);
    }
    let line = text.find('\n').unwrap_or(text.len());
    let inline = text[..line].find([',', '}']).unwrap_or(line);
    text[..inline].trim_end().len()
}

fn bare(scalar: &str) -> String {
    scalar.trim_matches('\'').to_owned()
}

/// The key that a webhook leaves to its provider, at the place where it could stand.
fn preset(source: &str) -> Option<Key> {
    let at = source.find("    provider: ")?;
    let start = at + "    provider: ".len();
    let end = start + source[start..].find('\n')?;
    let known = provider::find(source[start..end].trim())?;
    let trigger = &source[..source.find("\nsteps:")?];
    if trigger[end..].contains("\n    key: ") {
        return None;
    }
    Some(Key {
        role: Role::Trigger,
        expr: known.key.to_owned(),
        from_preset: true,
        before: format!("{}\n    key: ", &source[..end]),
        after: source[end..].to_owned(),
    })
}
