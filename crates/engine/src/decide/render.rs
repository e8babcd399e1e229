//! What the engine does for a step, with every expression evaluated.

use semel_flow::release::{FindConnection, RenderError, StepWork};
use semel_flow::{Scope, Step};
use semel_model::EffectId;
use serde_json::json;

/// What the engine does for a step; `effect` is made only where an expression of it reads that.
pub(super) fn render<'s>(
    step: &'s Step,
    scope: &Scope<'_>,
    find: FindConnection<'_>,
    key: Option<EffectId>,
) -> Result<StepWork<'s>, RenderError> {
    match key {
        Some(key) if step.reads_key => {
            let effect = json!({ "key": key.to_string() });
            let scope = scope.clone().with("effect", &effect);
            step.work(&scope, find, Some(key))
        }
        Some(_) | None => step.work(scope, find, key),
    }
}
