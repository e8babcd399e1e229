//! Telling a named effect what a run came to at it.

use semel_model::{NamedEffectId, RunId};
use semel_steps::failpoint::failpoint;
use semel_store::ReadError;
use semel_store::named_effects::{self as names, NamedReport};

use crate::runtime::Runtime;

/// Delivers what a run has to say about a name, in order, and wakes the runs that wait for it.
pub(crate) async fn deliver(
    runtime: &Runtime,
    run: RunId,
    name: NamedEffectId,
    subject: &str,
) -> Result<(), ReadError> {
    let cell = &runtime.cell;
    for due in names::list_notices(cell.of(run), run, name).await? {
        failpoint("notice.before", subject).await;
        let report = names::deliver(cell.of(name), &due).await?;
        failpoint("notice.after", subject).await;
        match report {
            NamedReport::Recorded(waiters) | NamedReport::Repeated(waiters) => {
                wake(runtime, name, waiters).await?;
            }
            NamedReport::Late(view) => {
                tracing::info!(run.id = %run, named_effect.id = %name, state = %view.state,
                    "a named effect has moved on since its run was done with it");
            }
            NamedReport::Unknown => {}
        }
        names::remove_notice(cell.of(run), &due).await?;
    }
    Ok(())
}

/// Makes the runs due that wait for a name. One that a worker holds at this moment stays a waiter,
/// behind the others, and name repair wakes it.
pub(crate) async fn wake(
    runtime: &Runtime,
    name: NamedEffectId,
    waiters: Vec<names::NamedEffectWaiter>,
) -> Result<(), ReadError> {
    if waiters.is_empty() {
        return Ok(());
    }
    let (woken, busy) = names::wake(runtime.cell.every(), waiters).await?;
    names::woken(runtime.cell.of(name), name, &woken).await?;
    names::put_back(runtime.cell.of(name), name, &busy).await?;
    runtime.signals.wake.notify_one();
    Ok(())
}
