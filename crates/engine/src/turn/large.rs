//! Large results: they go to the resource store instead of the journal.

use semel_model::event::Event;
use semel_model::{Outcome, Span};
use semel_store::resources::Keeping;

use super::Turn;
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
        let keeping = Keeping {
            namespace_id: self.release.namespace_id,
            run: self.run,
            step: self.step().id.as_str(),
            name: None,
            keep: RESULT_KEEP,
        };
        let resources = self.runtime.resources();
        if let Err(fault) = resources.record(&keeping, kept).await {
            tracing::error!(run.id = %self.run, "{}", fault.message);
        }
        match resources.spill(&keeping, result.clone()).await {
            Ok(spilled) => *result = spilled,
            Err(fault) => {
                let why = fault.message;
                tracing::warn!(run.id = %self.run, why, "a large result stays in the journal");
            }
        }
        event
    }
}
