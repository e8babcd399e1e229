//! Whether a value is what rules ask for.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::compile::{Bounds, Range, Rule};

/// How many characters of a name are shown.
const NAME_CHARS_SHOWN: usize = 60;

/// Why a value does not fit.
pub(super) fn misfit(rule: &Rule, value: &Value, steps: usize) -> Option<String> {
    let mut asking = Asking { steps };
    asking.ask(rule, value, &Path::Root).err()
}

/// Where in an input something stands.
enum Path<'p> {
    Root,
    Field(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl std::fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Root => f.write_str("input"),
            Self::Field(of, name) => write!(f, "{of}.{}", shown(name)),
            Self::Item(of, index) => write!(f, "{of}[{index}]"),
        }
    }
}

struct Asking {
    steps: usize,
}

impl Asking {
    fn ask(&mut self, rule: &Rule, value: &Value, path: &Path<'_>) -> Result<(), String> {
        match self.steps.checked_sub(1) {
            Some(left) => self.steps = left,
            None => return Err("the input is too large to be compared with its schema".to_owned()),
        }
        if !rule.kinds.is_empty() && !rule.kinds.iter().any(|kind| kind.holds(value)) {
            let words: Vec<&str> = rule.kinds.iter().map(|kind| kind.word()).collect();
            let found = name_of(value);
            return Err(format!("`{path}` is {found}, not {}", words.join(" or ")));
        }
        if let Some(values) = &rule.one_of_values
            && !values.contains(value)
        {
            let values: Vec<String> = values.iter().map(Value::to_string).collect();
            let values = cut(&values.join(", "), 200);
            return Err(format!("`{path}` is not one of: {values}"));
        }
        self.choices(rule, value, path)?;
        match value {
            Value::Number(number) => numbers(rule.bounds, number.as_f64(), path),
            Value::String(text) => texts(rule, text, path),
            Value::Array(items) => self.list(rule, items, path),
            Value::Object(fields) => self.map(rule, fields, path),
            Value::Null | Value::Bool(_) => Ok(()),
        }
    }

    fn choices(&mut self, rule: &Rule, value: &Value, path: &Path<'_>) -> Result<(), String> {
        if let Some(rules) = &rule.any_of {
            let mut last = String::new();
            for rule in rules {
                match self.ask(rule, value, path) {
                    Ok(()) => return Ok(()),
                    Err(problem) => last = problem,
                }
            }
            return Err(format!("`{path}` matches none of `anyOf`: {last}"));
        }
        if let Some(rules) = &rule.one_of {
            let mut fits = 0;
            let mut last = String::new();
            for rule in rules {
                match self.ask(rule, value, path) {
                    Ok(()) => fits += 1,
                    Err(problem) => last = problem,
                }
            }
            match fits {
                1 => {}
                0 => return Err(format!("`{path}` matches none of `oneOf`: {last}")),
                _ => return Err(format!("`{path}` matches more than one of `oneOf`")),
            }
        }
        Ok(())
    }

    fn list(&mut self, rule: &Rule, items: &[Value], path: &Path<'_>) -> Result<(), String> {
        within(rule.count, items.len() as u64, "items", path)?;
        if let Some(of) = &rule.items {
            for (index, item) in items.iter().enumerate() {
                self.ask(of, item, &Path::Item(path, index))?;
            }
        }
        if rule.unique {
            let mut seen = HashSet::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                if !seen.insert(item.to_string()) {
                    return Err(format!("`{}` appears twice", Path::Item(path, index)));
                }
            }
        }
        Ok(())
    }

    fn map(
        &mut self,
        rule: &Rule,
        fields: &Map<String, Value>,
        path: &Path<'_>,
    ) -> Result<(), String> {
        if let Some(name) = rule
            .required
            .iter()
            .find(|name| !fields.contains_key(*name))
        {
            return Err(format!("`{path}` has no `{}`", shown(name)));
        }
        within(rule.fields, fields.len() as u64, "fields", path)?;
        for (name, value) in fields {
            let place = Path::Field(path, name);
            match (rule.known.get(name), &rule.others) {
                (Some(of), _) => self.ask(of, value, &place)?,
                (None, Some(Some(of))) => self.ask(of, value, &place)?,
                (None, Some(None)) => {
                    return Err(format!("`{path}` cannot have `{}`", shown(name)));
                }
                (None, None) => {}
            }
        }
        Ok(())
    }
}

fn numbers(bounds: Bounds, number: Option<f64>, path: &Path<'_>) -> Result<(), String> {
    let Some(number) = number else {
        return Ok(());
    };
    let Bounds {
        minimum,
        maximum,
        above,
        below,
        multiple_of,
    } = bounds;
    let no = |what: &str, of: f64| Err(format!("`{path}` is {what} {of}"));
    match () {
        () if minimum.is_some_and(|least| number < least) => no("below", minimum.unwrap_or(0.0)),
        () if maximum.is_some_and(|most| number > most) => no("above", maximum.unwrap_or(0.0)),
        () if above.is_some_and(|bound| number <= bound) => no("not above", above.unwrap_or(0.0)),
        () if below.is_some_and(|bound| number >= bound) => no("not below", below.unwrap_or(0.0)),
        () if multiple_of.is_some_and(|step| !is_multiple(number, step)) => {
            no("not a multiple of", multiple_of.unwrap_or(0.0))
        }
        () => Ok(()),
    }
}

/// Whether a number is a multiple, as far as doubles can tell: 0.3 is one of 0.1.
fn is_multiple(number: f64, step: f64) -> bool {
    let times = number / step;
    (times - times.round()).abs() <= 1e-9 * times.abs().max(1.0)
}

fn texts(rule: &Rule, text: &str, path: &Path<'_>) -> Result<(), String> {
    if rule.chars.least.is_some() || rule.chars.most.is_some() {
        within(rule.chars, text.chars().count() as u64, "characters", path)?;
    }
    match &rule.pattern {
        Some(pattern) if !pattern.is_match(text) => {
            let pattern = cut(pattern.as_str(), 100);
            Err(format!("`{path}` does not match `{pattern}`"))
        }
        Some(_) | None => Ok(()),
    }
}

fn within(range: Range, count: u64, what: &str, path: &Path<'_>) -> Result<(), String> {
    if let Some(least) = range.least.filter(|least| count < *least) {
        return Err(format!("`{path}` has fewer than {least} {what}"));
    }
    match range.most.filter(|most| count > *most) {
        Some(most) => Err(format!("`{path}` has more than {most} {what}")),
        None => Ok(()),
    }
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a number with a fraction",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A sender's name for something, safe to show and short.
fn shown(name: &str) -> String {
    cut(&name.escape_debug().to_string(), NAME_CHARS_SHOWN)
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
