//! Keys that may be absent.

use serde_json::Value as Json;

use super::super::super::Check;
use super::{Key, Role};
use crate::diagnostic::Code;
use crate::expr::Scope;
use crate::tree::{Placed, Record};
use crate::triggers;
use crate::types::{Presence, input_type};

impl<'t> Check<'_, 't, '_> {
    pub(super) fn null(&mut self, key: &Key<'t>) {
        if !matches!(key.role, Role::Trigger | Role::Business | Role::Item) {
            return;
        }
        if key.placed.expr.may_fall_back() {
            let message = "if the value is absent this key is a constant, and everything without it counts as one";
            let help =
                "leave `default` out: a delivery without a key is refused and recorded, not lost";
            self.add(Code::KeyNull, key.placed.span(), message, help);
            return;
        }
        if !self.null_by_schema(key) && key.role == Role::Trigger {
            self.null_by_example(key);
        }
    }

    /// A path that the schema allows to be absent or null, and that nothing stands around.
    fn null_by_schema(&mut self, key: &Key<'t>) -> bool {
        let Some(input) = input_type(self.outline.flow) else {
            return false;
        };
        let assured = self.assured(key);
        let mut found = false;
        for path in key.placed.expr.bare_paths() {
            if path.root != "input" || assured.iter().any(|text| text == &path.to_string()) {
                continue;
            }
            let why = match input.presence(&path.fields) {
                Presence::Optional => "may be absent",
                Presence::Nullable => "may be null",
                Presence::Always | Presence::Unknown => continue,
            };
            found = true;
            let span = key.placed.path_span(self.report.source, path);
            let message = format!("`{path}` {why}, by `input_schema`, and then there is no key");
            let help = format!(
                "use a field that is always there, require it, or start only `when: has({path})`"
            );
            self.add(Code::KeyNull, span, &message, &help);
        }
        found
    }

    /// The paths that the trigger's `when` or the step's `if` has looked at.
    fn assured(&self, key: &Key<'_>) -> Vec<String> {
        let conditions: Vec<&Placed> = match key.at {
            Some(at) => self.outline.steps[at]
                .record
                .expr("if")
                .into_iter()
                .collect(),
            None => {
                let starts = self.outline.flow.map("trigger").into_iter();
                let starts = starts.flat_map(triggers::declared);
                starts.filter_map(|(_, start)| start.expr("when")).collect()
            }
        };
        let paths = conditions
            .iter()
            .flat_map(|placed| placed.expr.references());
        paths.map(ToString::to_string).collect()
    }

    /// An example that starts a run and has no key.
    fn null_by_example(&mut self, key: &Key<'t>) {
        let flow = self.outline.flow;
        let starts = flow.map("trigger").into_iter();
        let start = starts.flat_map(triggers::declared).find(|(_, start)| {
            let own = start.expr("key");
            own.is_some_and(|own| std::ptr::eq(own, key.placed))
        });
        let Some((spec, start)) = start else {
            return;
        };
        for example in flow.maps("examples") {
            let Some(problem) = keyless(example, spec.name(), start, key.placed) else {
                continue;
            };
            let name = example.text("name").unwrap_or_default();
            let message = format!("the example `{name}` has no key: {problem}");
            let help =
                "use a field that every delivery has, or leave such deliveries out with `when`";
            self.add(Code::KeyNull, key.placed.span(), &message, help);
            return;
        }
    }
}

/// Why an example that the trigger takes has no key.
fn keyless(example: &Record, kind: &str, start: &Record, key: &Placed) -> Option<String> {
    let input = crate::tree::json_of(example.value("input")?);
    let part = |name: &str| example.value(name).map(crate::tree::json_of);
    let headers = lowered(part("headers"));
    let query = part("query").unwrap_or_else(|| Json::Object(serde_json::Map::new()));
    // An example that says nothing of headers says nothing of a key that reads them.
    let reads = |root: &str| key.expr.references().iter().any(|path| path.root == root);
    if (reads("headers") && !example.has("headers")) || (reads("query") && !example.has("query")) {
        return None;
    }
    let trigger = serde_json::json!({ "kind": kind });
    let scope = Scope::new()
        .with("input", &input)
        .with("headers", &headers)
        .with("query", &query)
        .with("trigger", &trigger);
    if let Some(when) = start.expr("when")
        && when.expr.eval_bool(&scope) != Ok(true)
    {
        return None;
    }
    match key.expr.eval(&scope) {
        Ok(Json::String(text)) if text.is_empty() => Some("it is empty".to_owned()),
        Ok(Json::String(_) | Json::Number(_)) => None,
        Ok(Json::Null) => Some("it is null".to_owned()),
        Ok(Json::Bool(_)) => Some("it is true or false".to_owned()),
        Ok(Json::Array(_) | Json::Object(_)) => Some("it is a list or a map".to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

fn lowered(headers: Option<Json>) -> Json {
    let mut lowered = serde_json::Map::new();
    if let Some(Json::Object(headers)) = headers {
        for (name, value) in headers {
            lowered.insert(name.to_ascii_lowercase(), value);
        }
    }
    Json::Object(lowered)
}
