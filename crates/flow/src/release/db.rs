//! `db` steps, checked.

use semel_model::Span;
use semel_model::request::DbRequest;
use serde::Serialize;

use crate::expr::{EvalError, Scope};
use crate::template::Template;

/// One SQL statement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DbStep {
    /// The connection.
    pub connection: String,
    /// The statement: a constant.
    pub statement: String,
    /// What `$1`, `$2`, … stand for.
    pub values: Vec<Template>,
    /// How many rows a change must meet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// How long it may take.
    pub timeout: Span,
}

impl DbStep {
    /// The statement with its values worked out.
    ///
    /// # Errors
    ///
    /// Where a value cannot be worked out.
    pub fn render(&self, scope: &Scope<'_>) -> Result<DbRequest, EvalError> {
        let values = self.values.iter().map(|value| value.render(scope));
        Ok(DbRequest {
            connection: self.connection.clone(),
            statement: self.statement.clone(),
            values: values.collect::<Result<_, _>>()?,
            rows: self.rows,
            timeout: self.timeout,
        })
    }
}
