//! Which examples are played.

use std::sync::Arc;

use semel_flow::Example;

use super::{Selection, Subject};
use crate::error::RehearseError;

/// The examples that are played.
pub(crate) fn select_examples(
    subject: &Subject,
    selection: &Selection,
) -> Result<Vec<Arc<Example>>, RehearseError> {
    let all = semel_flow::examples(&subject.source);
    if all.is_empty() {
        return Err(RehearseError::NoExamples);
    }
    let wanted = |example: &Example| match &selection.example {
        Some(name) => example.name == *name,
        None => true,
    };
    let chosen: Vec<_> = all.into_iter().filter(wanted).map(Arc::new).collect();
    match (&selection.example, chosen.is_empty()) {
        (Some(name), true) => Err(RehearseError::UnknownExample(name.clone())),
        (Some(_) | None, _) => Ok(chosen),
    }
}
