//! Maps by their tables: each field is read as its table says, the rest is a mistake.

use semel_model::{FlowName, Span, StepId};

use super::Reader;
use crate::diagnostic::Code;
use crate::expr::is_name;
use crate::grammar::{Field, FieldType, MapSchema, new_name};
use crate::language::STEP;
use crate::nearest::nearest;
use crate::tree::{Entry, Item, NamedEntry, Record, Value};
use crate::yaml::{self, Kind, Node};

/// The most steps of a flow.
const STEP_COUNT_MAX: usize = 1_000;
/// The most characters of a label.
const LABEL_CHARS_MAX: usize = 63;

impl Reader<'_, '_> {
    /// A map. Fields that cannot be read are kept as such, so that they are not reported as
    /// missing.
    pub(super) fn record(&mut self, node: &Node, schema: &'static MapSchema) -> Option<Record> {
        let entries: &[yaml::Entry] = match &node.kind {
            Kind::Map(entries) => entries,
            Kind::Scalar(scalar) if scalar.text.is_empty() => &[],
            Kind::Scalar(_) | Kind::List(_) => {
                let message = format!("{} is a map, not {}", schema.what, node.kind_name());
                let help = "write `name: value` lines below it";
                self.report(Code::WrongType, node.span.clone(), &message, help);
                return None;
            }
        };
        let first = entries.first().map(|entry| entry.key_span.clone());
        let span = first.unwrap_or_else(|| node.span.clone());
        let meant = self.unknown_fields(entries, schema);
        let mut record = Record {
            schema,
            span,
            fields: vec![],
        };
        for field in schema.fields {
            match entries.iter().find(|entry| entry.key == field.name) {
                Some(entry) => {
                    let value = self.field(entry, entries, field);
                    record.fields.push(Entry {
                        name: field.name,
                        name_span: entry.key_span.clone(),
                        value_span: entry.value.span.clone(),
                        value,
                    });
                }
                None if field.needed && !meant.contains(&field.name) => {
                    self.missing(&record, field);
                }
                None => {}
            }
        }
        self.one_of(&record, &meant);
        Some(record)
    }

    /// A field; those of a loop that speak about its item can name it.
    fn field(
        &mut self,
        entry: &yaml::Entry,
        beside: &[yaml::Entry],
        field: &Field,
    ) -> Option<Value> {
        if self.is_renamed(&entry.value, field) {
            return None;
        }
        if let Some(name) = field.sees {
            self.items.push(name.to_owned());
            let value = self.taken(&entry.value, field.name, field.takes);
            self.items.pop();
            return value;
        }
        if !field.names_item {
            return self.taken(&entry.value, field.name, field.takes);
        }
        let named = beside.iter().find(|entry| entry.key == "as");
        let named = named.and_then(|entry| entry.value.as_scalar());
        self.items
            .push(named.map_or("item", |name| &name.text).to_owned());
        let value = self.taken(&entry.value, field.name, field.takes);
        self.items.pop();
        value
    }

    /// Tells of a word that had this name once.
    fn is_renamed(&mut self, node: &Node, field: &Field) -> bool {
        let word = node.as_scalar().map(|scalar| scalar.text.as_str());
        let renamed = word.and_then(|word| Some((word, new_name(field.renamed, word)?)));
        let Some((word, new)) = renamed else {
            return false;
        };
        let message = format!("`{}` cannot be `{word}`", field.name);
        let help = format!("write `{new}`: the word was renamed");
        self.report(Code::WrongValue, node.span.clone(), &message, &help);
        true
    }

    /// Tells of the fields that there are not, and gives those that were probably meant.
    fn unknown_fields(&mut self, entries: &[yaml::Entry], schema: &MapSchema) -> Vec<&'static str> {
        let mut meant = vec![];
        for entry in entries {
            let name = entry.key.as_str();
            if schema.find(name).is_some() {
                continue;
            }
            let message = format!("{} has no field `{name}`", schema.what);
            let renamed = new_name(schema.renamed, name);
            let near = renamed.or_else(|| nearest(name, schema.names()));
            meant.extend(near);
            let help = match (renamed, near) {
                (Some(new), _) => format!("write `{new}`: the field was renamed"),
                (None, Some(near)) => format!("did you mean `{near}`?"),
                (None, None) => format!(
                    "its fields: {}",
                    schema.names().collect::<Vec<_>>().join(", ")
                ),
            };
            self.report(Code::UnknownField, entry.key_span.clone(), &message, &help);
        }
        meant
    }

    fn missing(&mut self, record: &Record, field: &Field) {
        let message = format!("{} needs `{}`", record.schema.what, field.name);
        let help = format!("add `{}: {}`", field.name, field.example);
        self.report(Code::MissingField, record.span.clone(), &message, &help);
    }

    fn one_of(&mut self, record: &Record, meant: &[&str]) {
        let Some(one_of) = record.schema.one_of else {
            return;
        };
        // An author who wrote `funtion` sees the misspelling, and not that the step does nothing.
        let slipped = one_of.fields.iter().any(|name| meant.contains(name));
        let mut standing: Vec<_> = one_of
            .fields
            .iter()
            .filter(|name| record.has(name))
            .map(|name| record.name_span(name))
            .collect();
        standing.sort_by_key(|span| span.start);
        match standing.as_slice() {
            [_] => {}
            [] if slipped => {}
            [] => {
                let (message, help) = one_of.none;
                let help = help.replace("{fields}", &one_of.fields.join(", "));
                self.report(Code::MissingField, record.span.clone(), message, &help);
            }
            [_, second, ..] => {
                let (message, help) = one_of.many;
                self.report(Code::FieldConflict, second.clone(), message, help);
            }
        }
    }

    fn taken(&mut self, node: &Node, field: &str, takes: FieldType) -> Option<Value> {
        match takes {
            FieldType::Text => self
                .text(node, field)
                .map(|text| Value::Text(text.to_owned())),
            FieldType::FlowName => {
                let help = "write a name such as `order-paid`";
                let name: FlowName = self.parsed(node, field, help)?;
                Some(Value::Text(name.to_string()))
            }
            FieldType::StepName => {
                let help = "write a name such as `charge_card`";
                let name: StepId = self.parsed(node, field, help)?;
                Some(Value::Text(name.to_string()))
            }
            FieldType::Label => self.label(node, field),
            FieldType::Word(words) => self.word(node, field, words),
            FieldType::Words(words) => self.word(node, field, &words()),
            FieldType::Truth => self.truth(node, field).map(Value::Truth),
            FieldType::Whole(least, most) => {
                self.whole(node, field, least..=most).map(Value::Whole)
            }
            FieldType::Span(least, most) => {
                let bounds = Span::from_millis(least)..=Span::from_millis(most);
                self.span(node, field, bounds).map(Value::Span)
            }
            FieldType::Expr(place) => self.expr(node, field, place).map(Value::Expr),
            FieldType::Condition(place) => self.condition(node, field, place).map(Value::Expr),
            FieldType::Holes => self.holes(node, field),
            FieldType::Value => self.template(node),
            FieldType::Constant => self.constant(node, field),
            FieldType::Map(schema) => self.record(node, schema).map(Value::Map),
            FieldType::Maps(schema) => self.list(node, field, FieldType::Map(schema)),
            FieldType::Named(takes) => self.named(node, field, *takes),
            FieldType::List(takes) => self.list(node, field, *takes),
            FieldType::Either(forms) => self.either(node, field, forms),
            FieldType::Steps => self.steps(node, field),
        }
    }

    fn word(&mut self, node: &Node, field: &str, words: &[&'static str]) -> Option<Value> {
        let words: Vec<(&str, &'static str)> = words.iter().map(|word| (*word, *word)).collect();
        self.choice(node, field, &words).map(Value::Word)
    }

    fn label(&mut self, node: &Node, field: &str) -> Option<Value> {
        let text = self.text(node, field)?;
        let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if text.len() <= LABEL_CHARS_MAX && text.chars().all(part) {
            return Some(Value::Text(text.to_owned()));
        }
        let message = format!("`{text}` is not a valid `{field}`");
        let help =
            format!("write a name of up to {LABEL_CHARS_MAX} letters, digits, `_`, `-`, `.`");
        self.report(Code::WrongValue, node.span.clone(), &message, &help);
        None
    }

    fn constant(&mut self, node: &Node, field: &str) -> Option<Value> {
        let value = self.value(node)?;
        if value.to_string().contains("${{") {
            let message = format!("`{field}` holds constants, without `${{{{ }}}}`");
            let help = "compute values in a `function` step";
            self.report(Code::WrongValue, node.span.clone(), &message, help);
            return None;
        }
        Some(Value::Json(value))
    }

    fn named(&mut self, node: &Node, field: &str, takes: FieldType) -> Option<Value> {
        let entries: &[yaml::Entry] = match &node.kind {
            Kind::Map(entries) => entries,
            Kind::Scalar(scalar) if scalar.text.is_empty() => &[],
            Kind::Scalar(_) | Kind::List(_) => {
                self.wrong_type(node, field, "a map");
                return None;
            }
        };
        let mut read = vec![];
        for entry in entries {
            if field == "env" && !is_name(&entry.key) {
                let message = format!("`{}` cannot be read as `env.NAME`", entry.key);
                let help = "use letters, digits and `_`, a letter first";
                self.report(Code::WrongValue, entry.key_span.clone(), &message, help);
            }
            // What cannot be read is left out; it has been reported.
            if let Some(value) = self.taken(&entry.value, &entry.key, takes) {
                read.push(NamedEntry {
                    name: entry.key.clone(),
                    name_span: entry.key_span.clone(),
                    value,
                });
            }
        }
        Some(Value::Named(read))
    }

    fn list(&mut self, node: &Node, field: &str, takes: FieldType) -> Option<Value> {
        let Kind::List(items) = &node.kind else {
            self.wrong_type(node, field, "a list");
            return None;
        };
        // What cannot be read is left out; it has been reported.
        let read = items.iter().filter_map(|item| {
            let value = self.taken(item, field, takes)?;
            Some(Item { value })
        });
        Some(Value::List(read.collect()))
    }

    fn either(&mut self, node: &Node, field: &str, forms: &[FieldType]) -> Option<Value> {
        let fits = |takes: &&FieldType| match &node.kind {
            Kind::Map(_) => matches!(takes, FieldType::Map(_) | FieldType::Named(_)),
            Kind::List(_) => matches!(takes, FieldType::List(_) | FieldType::Steps),
            Kind::Scalar(_) => !matches!(
                takes,
                FieldType::Map(_) | FieldType::Named(_) | FieldType::List(_) | FieldType::Steps
            ),
        };
        let takes = forms.iter().find(fits).or(forms.first())?;
        if let (FieldType::Word(words), Some(scalar)) = (takes, node.as_scalar())
            && !words.contains(&scalar.text.as_str())
        {
            let maps = forms.iter().find_map(|form| {
                if let FieldType::Map(schema) = form {
                    Some(schema.names().collect::<Vec<_>>().join("` or `"))
                } else {
                    None
                }
            });
            let message = format!("`{field}` cannot be `{}`", scalar.text);
            let maps = maps.map_or(String::new(), |maps| format!(", or a map with `{maps}`"));
            let help = format!("write `{field}: {}`{maps}", words.join("` or `"));
            self.report(Code::WrongValue, node.span.clone(), &message, &help);
            return None;
        }
        self.taken(node, field, *takes)
    }

    fn steps(&mut self, node: &Node, field: &str) -> Option<Value> {
        let read = self.list(node, field, FieldType::Map(&STEP))?;
        if let Value::List(items) = &read {
            let before = self.step_count;
            self.step_count += items.len();
            if before <= STEP_COUNT_MAX && self.step_count > STEP_COUNT_MAX {
                let message = format!("a flow has at most {STEP_COUNT_MAX} steps");
                let help = "split the flow into several";
                self.report(Code::TooLarge, node.span.clone(), &message, help);
            }
        }
        Some(read)
    }
}
