//! Redaction: a destination that echoes a secret does not get it into the journal.
//!
//! Every secret of a destination that is long enough to be distinguished from other text is looked
//! for in the forms in which it may come back: as it is, in base64 wherever it begins within three
//! bytes, percent-encoded, in hex, and escaped as JSON writes it. One pass over a text looks for
//! all of them; an answer without any is not copied.

mod forms;
mod window;

use aho_corasick::{AhoCorasick, MatchKind};
use semel_model::secret::SCANNED_CHARS_MIN;
use semel_model::{Fault, Outcome, SecretText};
use serde_json::{Map, Value};

/// Finds the secrets of one destination, in every form.
#[derive(Default)]
pub struct Redactor {
    search: Option<AhoCorasick>,
    /// What is written in place of each form.
    marks: Vec<String>,
    /// The bytes of the longest form.
    longest: usize,
}

/// The search is made of the secrets, so it is not shown.
impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({})", self.marks.len())
    }
}

impl Redactor {
    /// Finds these secrets, by name.
    #[must_use]
    pub fn of<'s>(secrets: impl IntoIterator<Item = (&'s str, &'s SecretText)>) -> Self {
        let (mut forms, mut marks) = (Vec::new(), Vec::new());
        for (name, secret) in secrets {
            // A private key may come back with other line breaks, so each of its lines counts.
            let lines = secret.reveal().lines().map(str::trim);
            for text in [secret.reveal(), secret.reveal().trim()]
                .into_iter()
                .chain(lines)
            {
                if text.chars().count() < SCANNED_CHARS_MIN || text.starts_with("-----") {
                    continue;
                }
                for form in forms::of(text) {
                    forms.push(form);
                    marks.push(format!("[secret {name}]"));
                }
            }
        }
        let search = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&forms);
        let longest = forms.iter().map(String::len).max().unwrap_or_default();
        forms.iter_mut().for_each(zeroize::Zeroize::zeroize);
        // Building fails only beyond two gigabytes of patterns; a secret has sixteen kilobytes.
        assert!(search.is_ok(), "secrets are short");
        Self {
            search: search.ok().filter(|_| !marks.is_empty()),
            marks,
            longest,
        }
    }

    fn search(&self) -> Option<&AhoCorasick> {
        let search = self.search.as_ref();
        search.filter(|_| !semel_model::SeededBug::SecretsNotRedacted.is_seeded())
    }

    /// Takes the secrets out of what an attempt came to.
    #[must_use]
    pub fn redact(&self, mut outcome: Outcome) -> Outcome {
        match &mut outcome {
            Outcome::Done(receipt) => self.redact_value(&mut receipt.response),
            Outcome::Failed(fault) => *fault = self.redact_fault(fault.clone()),
            Outcome::InDoubt(doubt) => {
                self.redact_text(&mut doubt.code);
                self.redact_text(&mut doubt.message);
            }
        }
        outcome
    }

    /// Takes the secrets out of a fault.
    #[must_use]
    pub fn redact_fault(&self, mut fault: Fault) -> Fault {
        self.redact_text(&mut fault.code);
        self.redact_text(&mut fault.message);
        fault
    }

    /// Takes the secrets out of a text.
    pub fn redact_text(&self, text: &mut String) {
        let found = self
            .search()
            .filter(|search| search.is_match(text.as_str()));
        if let Some(search) = found {
            *text = search.replace_all(text, &self.marks);
        }
    }

    /// Takes the secrets out of every text of a value, and out of the names of its members.
    pub fn redact_value(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) => {}
            // A secret of digits alone may come back as a number.
            Value::Number(number) => {
                let mut text = number.to_string();
                self.redact_text(&mut text);
                if text != number.to_string() {
                    *value = Value::String(text);
                }
            }
            Value::String(text) => self.redact_text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_value(item)),
            Value::Object(members) => {
                members
                    .values_mut()
                    .for_each(|item| self.redact_value(item));
                self.redact_names(members);
            }
        }
    }

    fn redact_names(&self, members: &mut Map<String, Value>) {
        let Some(search) = &self.search else { return };
        if members.keys().any(|name| search.is_match(name.as_str())) {
            let taken = std::mem::take(members).into_iter();
            members
                .extend(taken.map(|(name, item)| (search.replace_all(&name, &self.marks), item)));
        }
    }
}

#[cfg(test)]
mod tests;
