//! Steps, checked.

use semel_model::{EffectId, Guard, RetryPolicy, StepId};
use serde::Serialize;
use serde_json::Value;

use super::Follow;
use super::business_key::BusinessKey;
use super::guard::StepGuard;
use crate::expr::{EvalError, Expr, Scope};
use crate::steps::{Action, ActionKind, FindConnection, RenderError, StepWork};

/// One step of a flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// What its author calls it.
    pub id: StepId,
    /// The step is skipped where this is false.
    #[serde(rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<Expr>,
    /// What it does.
    #[serde(flatten)]
    pub action: Action,
    /// What makes it safe to repeat.
    pub guard: StepGuard,
    /// The step's result, over `response`; otherwise what its kind yields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Expr>,
    /// What the destination calls the effect, over `result`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_id: Option<Expr>,
    /// How often a failed attempt is made again; the flow's policy where the step says nothing.
    pub retry: RetryPolicy,
    /// What comes after it.
    #[serde(skip_serializing_if = "Follow::is_next")]
    pub follow: Follow,
    /// The place of the step whose parts do it, and which list of that step it is in.
    #[serde(skip)]
    pub inside: Option<(usize, u32)>,
    /// The place of the step that takes it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<usize>,
    /// What its effect is called, where it happens once per key across runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub named: Option<Box<BusinessKey>>,
    /// Whether what it sends or probes reads `effect.key`.
    #[serde(skip)]
    pub reads_key: bool,
}

impl Step {
    /// How its effect is made safe, where it has one. What only the connection decides counts as
    /// `review`.
    #[must_use]
    pub const fn guard(&self) -> Option<Guard> {
        self.guard.guard()
    }

    /// The kind of step.
    #[must_use]
    pub const fn kind(&self) -> ActionKind {
        self.action.kind()
    }

    /// Whether its effect is made in this database, in the commit of its outcome.
    #[must_use]
    pub const fn commits_here(&self) -> bool {
        match &self.kind().descriptor().effect {
            Some(rule) => rule.commits_here,
            None => false,
        }
    }

    /// The connection that it goes over, where it names one.
    #[must_use]
    pub fn connection(&self) -> Option<&str> {
        self.action.released().connection()
    }

    /// What the engine does for it; a request with every hole worked out. `key` is the effect's, where
    /// it has one.
    ///
    /// # Errors
    ///
    /// Where a hole cannot be worked out, or its connection is not there.
    pub fn work(
        &self,
        scope: &Scope<'_>,
        find: FindConnection<'_>,
        key: Option<EffectId>,
    ) -> Result<StepWork<'_>, RenderError> {
        let work = self.action.released().work(scope, find, key)?;
        let name = match &work {
            StepWork::Request(request) => request.connection(),
            StepWork::Control(_) => None,
        };
        match name {
            Some(name) if find(name).is_none() => Err(RenderError::NoConnection(name.to_owned())),
            Some(_) | None => Ok(work),
        }
    }

    /// What the step yields for an answer, over a scope that has `response` in it.
    ///
    /// # Errors
    ///
    /// If the author's `result` cannot be evaluated.
    pub fn result_of(&self, scope: &Scope<'_>) -> Result<Value, EvalError> {
        if let Some(expr) = &self.result {
            return expr.eval(scope);
        }
        let response = scope.find("response");
        Ok(response.map_or(Value::Null, |response| {
            self.action.released().result_of(response)
        }))
    }

    /// Whether an expression of what it sends or probes reads `effect`.
    pub(crate) fn sees_key(&self) -> bool {
        let mut exprs = self.exprs();
        if let StepGuard::Probe(probe) = &self.guard {
            exprs.extend(probe.exprs());
        }
        let sees = |expr: &&Expr| expr.references().iter().any(|path| path.root == "effect");
        exprs.iter().any(sees)
    }

    /// Every expression of what it sends.
    #[must_use]
    pub fn exprs(&self) -> Vec<&Expr> {
        self.action.released().exprs()
    }
}
