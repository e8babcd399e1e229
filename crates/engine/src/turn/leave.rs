//! Leaving a gate: the run has ended, and the next one may start.

use semel_model::gate::GateOperation;
use semel_steps::failpoint::failpoint;
use semel_store::gate_exits::GateExit;
use semel_store::gates::GateRequest;
use semel_store::queue;

use crate::runtime::Runtime;

/// Leaves a gate after a run has ended, and wakes the next run.
pub(crate) async fn leave(runtime: &Runtime, exit: GateExit, subject: &str) {
    let GateExit { run, gate, seq } = exit;
    failpoint("leave.before", subject).await;
    let visit = GateOperation::Leave { seq };
    match runtime
        .limiter
        .visiting
        .write(GateRequest {
            gate,
            run,
            operation: visit,
        })
        .await
    {
        Ok(answer) => {
            failpoint("leave.after", subject).await;
            if !answer.wake_ups.is_empty() {
                if let Err(error) =
                    queue::wake_at_gate(runtime.cell.every(), &answer.wake_ups).await
                {
                    tracing::debug!(%error, gate.id = %gate, "failed to wake the next run at a gate; gate repair retries");
                }
                runtime.signals.wake.notify_one();
            }
            runtime.limiter.note_recorded_exits([exit]);
        }
        Err(error) => tracing::warn!(%error, run.id = %run, gate.id = %gate,
            "failed to leave a gate; gate repair retries"),
    }
}
