//! Large results: they go to the resource store instead of the journal.

use semel_model::event::Event;
use semel_model::{Outcome, Span};
use semel_store::resources::Keeping;
use serde_json::Value;

use super::Turn;
use crate::external_result::ExternalResult;
use crate::resources::is_large;

/// How long a result that was too large for the journal is kept.
const RESULT_KEEP: Span = Span::from_const_secs(30 * 86_400);

impl Turn {
    /// Records what an executor stored by reference, and stores a result by reference that is too
    /// large for the journal. One that cannot be stored stays in the journal: the outcome must not
    /// be lost because of it.
    pub(super) async fn settle_large(&self, outcome: &Outcome, mut event: Event) -> Event {
        let kept = match outcome {
            Outcome::Done(receipt) => &receipt.kept[..],
            Outcome::Failed(_) | Outcome::InDoubt(_) => return event,
        };
        let (Event::Done { result, .. } | Event::Computed { result, .. }) = &mut event else {
            return event;
        };
        if kept.is_empty() && !is_large(result) {
            return event;
        }
        let keeping = self.keeping();
        let resources = self.runtime.resources();
        if let Err(fault) = resources.record(&keeping, kept).await {
            tracing::error!(run.id = %self.run, "{}", fault.message);
        }
        self.spill(&keeping, result).await;
        event
    }

    /// Stores a worker's answer by reference, if it is the step's result as it stands and too large
    /// for the journal. Where expressions of the step read it, it stays.
    pub(super) async fn spill_answer(&self, mut outside: ExternalResult) -> ExternalResult {
        let ExternalResult::Task(seen) = &mut outside else {
            return outside;
        };
        let step = self.step();
        if step.result.is_some() || step.external_id.is_some() {
            return outside;
        }
        let answer = seen.answer.as_mut();
        let result = answer.and_then(|answer| answer.get_mut("result"));
        if let Some(result) = result.filter(|result| is_large(result)) {
            self.spill(&self.keeping(), result).await;
        }
        outside
    }

    /// How results of the present step are kept.
    fn keeping(&self) -> Keeping<'_> {
        Keeping {
            namespace_id: self.release.namespace_id,
            by: Some((self.run, self.step().id.as_str())),
            name: None,
            keep: RESULT_KEEP,
        }
    }

    async fn spill(&self, keeping: &Keeping<'_>, result: &mut Value) {
        let resources = self.runtime.resources();
        if let Err(fault) = resources.spill(keeping, result).await {
            let why = fault.message;
            tracing::warn!(run.id = %self.run, why, "a large result stays in the journal");
        }
    }
}
