//! The business key of a step: what its effect is called across runs.

use semel_model::{EffectScope, FlowName, Span, StepId};
use serde::Serialize;

use crate::expr::{Expr, Scope};
use crate::triggers::object_of;

/// What the effect of a step is called: it happens once per key across runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BusinessKey {
    /// The key, over what the step can see.
    pub key: Expr,
    /// Where the key counts.
    pub scope: BusinessScope,
    /// How long the done or failed effect is remembered.
    pub keep: Span,
    /// Whether an effect that is done with another request is taken for this one.
    pub accepts_other: bool,
    /// Whether the effect is undone although other runs reused it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub undoes_shared: bool,
}

/// Where a business key counts, in an author's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BusinessScope {
    /// For this step, whatever its release.
    Step,
    /// For all steps of the flow.
    Flow,
    /// For the whole namespace, scripts included.
    Namespace,
}

impl BusinessScope {
    /// The scope that a word names.
    pub(crate) fn of(word: &str) -> Option<Self> {
        match word {
            "step" => Some(Self::Step),
            "flow" => Some(Self::Flow),
            "namespace" => Some(Self::Namespace),
            _ => None,
        }
    }

    /// The scope as it is stored.
    #[must_use]
    pub fn stored(self, flow: &FlowName, step: &StepId) -> EffectScope {
        match self {
            Self::Step => EffectScope::Step {
                flow: flow.clone(),
                step: step.as_str().into(),
            },
            Self::Flow => EffectScope::Flow(flow.clone()),
            Self::Namespace => EffectScope::Shared,
        }
    }
}

impl BusinessKey {
    /// The key of one effect.
    ///
    /// # Errors
    ///
    /// Why it has none: the expression fails, or gives neither text nor a number.
    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<String, String> {
        object_of(Some(&self.key), scope)
    }
}
