//! Questions to language models: the same question is asked once within its scope.
//!
//! Of two that ask at once both may reach the model; the answer that was recorded first holds for
//! both, so that a run that is carried on elsewhere decides by what was decided by before.

use semel_model::request::{CacheScope, LlmRequest};
use semel_model::{Fault, FlowName, Outcome, Receipt, RunId, Span};
use semel_steps::{Destination, llm};
use semel_store::{Cell, llm_answers};

/// How long an answer holds within a run: runs that take longer ask again.
const KEEP_RUN: Span = Span::from_const_secs(7 * 86_400);

/// How long an answer holds beyond its run.
const KEEP_BEYOND: Span = Span::from_const_secs(30 * 86_400);

/// A question, and whose it is.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// What is asked.
    pub request: &'a LlmRequest,
    /// Whom.
    pub to: &'a Destination,
    /// The run that asks.
    pub run: RunId,
    /// Its flow.
    pub flow: &'a FlowName,
}

/// The answer on record, or else the one that `asking` gets. `asking` is not begun where there is
/// an answer.
pub async fn ask(
    cell: &Cell,
    question: &Question<'_>,
    asking: impl Future<Output = Outcome> + Send,
) -> Outcome {
    let digest = match llm::digest(question.request, question.to, question.run, question.flow) {
        Ok(digest) => digest,
        Err(fault) => return Outcome::Failed(fault),
    };
    let namespace_id = question.to.namespace_id;
    match llm_answers::find(cell, namespace_id, &digest).await {
        Ok(Some(answer)) => return Outcome::Done(Receipt::new(answer, None)),
        Ok(None) => {}
        Err(error) => {
            let message = format!("nobody was asked: {error}");
            return Outcome::Failed(Fault::passing("database-unavailable", message));
        }
    }
    let receipt = match asking.await {
        Outcome::Done(receipt) => receipt,
        other @ (Outcome::Failed(_) | Outcome::InDoubt(_)) => return other,
    };
    let keep = match question.request.cache {
        CacheScope::Run => KEEP_RUN,
        CacheScope::Flow | CacheScope::Namespace => KEEP_BEYOND,
    };
    match llm_answers::keep(cell, namespace_id, &digest, &receipt.response, keep).await {
        Ok(response) => Outcome::Done(Receipt {
            response,
            ..receipt
        }),
        // The answer is good, and goes into the journal; only others will have to ask again.
        Err(error) => {
            tracing::warn!(%error, run.id = %question.run, "an answer was not recorded for others");
            Outcome::Done(receipt)
        }
    }
}
