//! What the input of a flow looks like: a part of JSON Schema, compiled with the release and asked
//! of every delivery before anything is accepted.
//!
//! A schema is a tree and a value is a tree, so asking costs at most the product of their sizes;
//! [`STEPS_MAX`] bounds that as well. `format` is an annotation and is not asked.

mod compile;
mod fit;
mod words;

pub(crate) use words::words;

use serde::{Serialize, Serializer};
use serde_json::Value;

use compile::Rule;

/// How many comparisons one input may cost.
const STEPS_MAX: usize = 1_000_000;

/// The schema that inputs have to fit, compiled.
#[derive(Clone, Debug)]
pub struct InputSchema {
    json: Value,
    rule: Rule,
}

impl InputSchema {
    /// Compiles a schema.
    ///
    /// # Errors
    ///
    /// If it says something that flows do not use, or that cannot be.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        Ok(Self {
            json: schema.clone(),
            rule: Rule::compile(schema, 0)?,
        })
    }

    /// The schema of everything that looks like an example: its fields, each of its type.
    ///
    /// # Errors
    ///
    /// If the example is nested too deeply.
    pub fn from_example(example: &Value) -> Result<Self, String> {
        Self::compile(&compile::schema_of(example))
    }

    /// Why an input does not fit: where, and what was expected. Nothing if it fits.
    #[must_use]
    pub fn misfit(&self, input: &Value) -> Option<String> {
        fit::misfit(&self.rule, input, STEPS_MAX)
    }
}

impl PartialEq for InputSchema {
    fn eq(&self, other: &Self) -> bool {
        self.json == other.json
    }
}

impl Serialize for InputSchema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}

#[cfg(test)]
mod tests;
