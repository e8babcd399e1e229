//! Leaving a gate: the run has ended, and the next one may start.

use semel_model::gate::Visit;
use semel_steps::failpoint::failpoint;
use semel_store::gate_exits::Departure;
use semel_store::gates::Call;
use semel_store::queue;

use crate::runtime::Runtime;

/// Tells a gate that a run has ended, and whoever is next that it may come.
pub(crate) async fn leave(runtime: &Runtime, departure: Departure, subject: &str) {
    let Departure { run, gate, seq } = departure;
    failpoint("leave.before", subject).await;
    let visit = Visit::Leave { seq };
    match runtime
        .limiter
        .visiting
        .write(Call { gate, run, visit })
        .await
    {
        Ok(answer) => {
            failpoint("leave.after", subject).await;
            if !answer.summons.is_empty() {
                if let Err(error) = queue::summon(&runtime.cell, &answer.summons).await {
                    tracing::debug!(%error, gate.id = %gate, "the next at a gate is told later");
                }
                runtime.signals.wake.notify_one();
            }
            runtime.limiter.note_told([departure]);
        }
        Err(error) => tracing::warn!(%error, run.id = %run, gate.id = %gate,
            "a gate could not be told of a run's end; that is made good"),
    }
}
