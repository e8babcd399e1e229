//! `persist` and `emit` steps, checked: what is kept, and what is told.

use semel_model::Span;
use semel_model::request::{Emission, PersistRequest};
use serde::Serialize;

use crate::expr::{EvalError, Scope};
use crate::template::{Template, TextTemplate};

/// A value that is kept by reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PersistStep {
    /// The value.
    pub value: Template,
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<TextTemplate>,
    /// Its media type.
    #[serde(rename = "type")]
    pub media_type: String,
    /// How long it is kept.
    pub keep: Span,
}

impl PersistStep {
    /// The value with every hole worked out.
    ///
    /// # Errors
    ///
    /// Where a hole cannot be worked out.
    pub fn render(&self, scope: &Scope<'_>) -> Result<PersistRequest, EvalError> {
        let name = self.name.as_ref().map(|it| it.render(scope));
        Ok(PersistRequest {
            value: self.value.render(scope)?,
            name: name.transpose()?,
            media_type: self.media_type.clone(),
            keep: self.keep,
        })
    }
}

/// An event for other flows and for subscribed webhooks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EmitStep {
    /// The event.
    pub event: String,
    /// What it carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Template>,
}

impl EmitStep {
    /// The event with every hole worked out.
    ///
    /// # Errors
    ///
    /// Where a hole cannot be worked out.
    pub fn render(&self, scope: &Scope<'_>) -> Result<Emission, EvalError> {
        let data = self.data.as_ref().map(|it| it.render(scope));
        Ok(Emission {
            event: self.event.clone(),
            data: data.transpose()?.unwrap_or_default(),
        })
    }
}
