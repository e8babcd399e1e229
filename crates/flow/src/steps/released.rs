//! What every kind of step says once it is released, and how its request is built.

use semel_model::connection::Connection;
use semel_model::{EffectId, Fault};
use serde_json::Value;

use super::StepWork;
use crate::expr::{EvalError, Expr, Scope};

/// A step of one kind, as a release holds it.
pub(crate) trait ReleasedStep {
    /// Every expression of what it sends.
    fn exprs(&self) -> Vec<&Expr>;

    /// The connection that it goes over, where it names one.
    fn connection(&self) -> Option<&str>;

    /// What the engine does for it; a request with every hole worked out. `key` is the effect's, where
    /// it has one.
    fn work(
        &self,
        scope: &Scope<'_>,
        find: FindConnection<'_>,
        key: Option<EffectId>,
    ) -> Result<StepWork<'_>, RenderError>;

    /// What it gives for an answer where its author does not say `result`.
    fn result_of(&self, response: &Value) -> Value {
        response.clone()
    }
}

impl<T: ReleasedStep> ReleasedStep for Box<T> {
    fn exprs(&self) -> Vec<&Expr> {
        (**self).exprs()
    }

    fn connection(&self) -> Option<&str> {
        (**self).connection()
    }

    fn work(
        &self,
        scope: &Scope<'_>,
        find: FindConnection<'_>,
        key: Option<EffectId>,
    ) -> Result<StepWork<'_>, RenderError> {
        (**self).work(scope, find, key)
    }

    fn result_of(&self, response: &Value) -> Value {
        (**self).result_of(response)
    }
}

/// The body of an answer: as JSON, as a resource, or as text.
pub(super) fn body_of_answer(response: &Value) -> Value {
    let part = |name| response.get(name).filter(|part| !part.is_null()).cloned();
    let body = part("json").or_else(|| part("resource"));
    body.or_else(|| part("text")).unwrap_or_default()
}

/// Finds connections by name.
pub type FindConnection<'a> = &'a dyn Fn(&str) -> Option<&'a Connection>;

/// Why a call could not be built. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// A hole could not be evaluated.
    #[error(transparent)]
    Eval(#[from] EvalError),
    /// There is no such connection.
    #[error("there is no connection `{0}`: semel connection create {0}")]
    NoConnection(String),
    /// The connection leads to something else.
    #[error("the connection `{name}` is of the kind {kind}, which an `http` step cannot use")]
    Unfit {
        /// The connection.
        name: String,
        /// Its kind.
        kind: &'static str,
    },
    /// The key has no place in the body.
    #[error("the key goes into the field `{0}` of the body, and the body is no map")]
    NoField(String),
}

impl RenderError {
    /// The fault that the run gets.
    #[must_use]
    pub fn to_fault(&self) -> Fault {
        let code = match self {
            Self::Eval(error) => error.code(),
            Self::NoConnection(_) => "connection-missing",
            Self::Unfit { .. } => "connection-unfit",
            Self::NoField(_) => "key-without-field",
        };
        Fault::permanent(code, self.to_string())
    }
}
