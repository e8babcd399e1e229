//! Questions to language models: the same question is asked once within its scope.
//!
//! ```text
//! recorded? ─▶ the answer
//!    no ─▶ asked here already? ─▶ wait for that answer
//!             no ─▶ ask ─▶ record ─▶ the answer, for every caller that waits
//! ```
//!
//! Of many callers that ask at once in one process, one asks the model and the others wait for its
//! answer; where it ends without one, the next asks. Of two processes that ask at once both may
//! reach the model; the answer that was recorded first holds for both, so that a run that continues
//! on another server decides by the same answer as before.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use semel_model::request::{CacheScope, LlmRequest};
use semel_model::{Fault, FlowName, Outcome, Receipt, RunId, Slot, Span, json};
use semel_steps::{AnswerRoom, Destination, llm};
use semel_store::Cell;
use semel_store::llm_answers::{self, KeepFor};
use tokio::sync::watch;

/// How long an answer holds beyond its run.
const KEEP_BEYOND: Span = Span::from_const_secs(30 * 86_400);

/// A question, and whose it is.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// What is asked.
    pub request: &'a LlmRequest,
    /// The model's connection.
    pub to: &'a Destination,
    /// The run that asks.
    pub run: RunId,
    /// Its flow.
    pub flow: &'a FlowName,
}

/// The questions that this process is asking at this moment. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Asking(Arc<Mutex<HashMap<Asked, Heard>>>);

/// Namespace and digest of a question.
type Asked = (i32, [u8; 32]);

/// Where the caller that asks will tell how it ended; closed without a word where that caller ends first.
type Heard = watch::Receiver<Option<Told>>;

/// The word of the caller that asks, for the others.
#[derive(Clone, Debug)]
enum Told {
    /// There is an answer, which is recorded. It is not passed on: each caller needs memory for its own.
    Recorded,
    /// There is an answer, and it could not be recorded.
    Unrecorded,
    /// There is none.
    Failed(Outcome),
}

/// The right to ask. Dropping it lets the next caller ask.
struct AskPermit {
    asking: Asking,
    asked: Asked,
    tell: watch::Sender<Option<Told>>,
}

impl Drop for AskPermit {
    fn drop(&mut self) {
        self.asking.lock().remove(&self.asked);
    }
}

impl Asking {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Asked, Heard>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to ask, or where the answer of the caller that asks will arrive.
    fn join(&self, asked: Asked) -> Result<AskPermit, Heard> {
        let mut under_way = self.lock();
        if let Some(heard) = under_way.get(&asked) {
            return Err(heard.clone());
        }
        let (tell, heard) = watch::channel(None);
        under_way.insert(asked, heard);
        Ok(AskPermit {
            asking: self.clone(),
            asked,
            tell,
        })
    }
}

/// The recorded answer, or else the one that `asking` gets. `asking` is not begun where there is an
/// answer, or another caller of this process asks already.
pub async fn ask(
    cell: &Cell,
    (under_way, answers): (&Asking, &Arc<AnswerRoom>),
    question: &Question<'_>,
    asking: impl Future<Output = Outcome> + Send,
) -> Outcome {
    let digest = match llm::digest(question.request, question.to, question.run, question.flow) {
        Ok(digest) => digest,
        Err(fault) => return Outcome::Failed(fault),
    };
    let asked = (question.to.namespace_id, digest);
    let turn = loop {
        match under_way.join(asked) {
            Ok(turn) => break turn,
            Err(mut heard) => {
                let told = match heard.wait_for(Option::is_some).await {
                    Ok(told) => told.clone(),
                    Err(_) => None,
                };
                match told {
                    Some(Told::Failed(outcome)) => return outcome,
                    Some(Told::Recorded) => {
                        if let Some(outcome) = find(cell, answers, asked).await {
                            return outcome;
                        }
                    }
                    // Asked for again by each run in its own time: not by all of them, one after the other, now.
                    Some(Told::Unrecorded) => {
                        let message = "the model's answer could not be recorded for this run";
                        return Outcome::Failed(Fault::passing("database-unavailable", message));
                    }
                    None => {}
                }
            }
        }
    };
    let (outcome, told) = ask_first(cell, answers, question, asked, asking).await;
    // There may be no caller that waits.
    let _ = turn.tell.send(Some(told));
    outcome
}

/// The recorded answer, once there is room for it; or that it cannot be looked up.
async fn find(
    cell: &Cell,
    answers: &Arc<AnswerRoom>,
    (namespace_id, digest): Asked,
) -> Option<Outcome> {
    let cell = cell.of(Slot::of_digest(&digest));
    match llm_answers::find(cell, namespace_id, &digest).await {
        Ok(Some(text)) => {
            let room = answers.take(namespace_id, json::parsed_bytes(text.as_bytes()));
            let reserved = room.await;
            let answer = Receipt::new(json::read_back(&text), None);
            Some(Outcome::Done(answer.with_memory(reserved)))
        }
        Ok(None) => None,
        Err(error) => {
            let message = format!("the model was not asked: {error}");
            let fault = Fault::passing("database-unavailable", message);
            Some(Outcome::Failed(fault))
        }
    }
}

async fn ask_first(
    cell: &Cell,
    answers: &Arc<AnswerRoom>,
    question: &Question<'_>,
    asked: Asked,
    asking: impl Future<Output = Outcome> + Send,
) -> (Outcome, Told) {
    match find(cell, answers, asked).await {
        Some(found @ Outcome::Done(_)) => return (found, Told::Recorded),
        Some(other @ (Outcome::Failed(_) | Outcome::InDoubt(_))) => {
            return (other.clone(), Told::Failed(other));
        }
        None => {}
    }
    let receipt = match asking.await {
        Outcome::Done(receipt) => receipt,
        other @ (Outcome::Failed(_) | Outcome::InDoubt(_)) => {
            return (other.clone(), Told::Failed(other));
        }
    };
    let (namespace_id, digest) = asked;
    let cell = cell.of(Slot::of_digest(&digest));
    let keep = match question.request.cache {
        CacheScope::Run => KeepFor::Run(question.run),
        CacheScope::Flow | CacheScope::Namespace => KeepFor::Time(KEEP_BEYOND),
    };
    match llm_answers::keep(cell, namespace_id, &digest, &receipt.response, keep).await {
        Ok(response) => {
            let kept = Receipt {
                response,
                ..receipt
            };
            (Outcome::Done(kept), Told::Recorded)
        }
        // The answer is valid, and goes into the journal; only other runs will have to ask again.
        Err(error) => {
            tracing::warn!(%error, run.id = %question.run, "failed to record a model's answer for other runs");
            (Outcome::Done(receipt), Told::Unrecorded)
        }
    }
}
