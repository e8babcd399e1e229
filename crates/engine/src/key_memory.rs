//! How long a destination may remember the key of an effect.

use semel_flow::{ActionKind, Step};
use semel_model::{Connection, Span};
use semel_store::kept_generations::KeyMemory;

/// How long most destinations remember a key: for those whose connection does not say.
const USUAL_MEMORY: Span = Span::from_const_secs(24 * 3_600);

/// How long something besides the journal remembers the key of a step's effect, by what the flow and the
/// step's connection say; nothing where nothing does.
pub(crate) fn key_memory(step: &Step, connection: Option<&Connection>) -> Option<KeyMemory> {
    step.guard()?;
    match step.kind() {
        // A marker, the claim of another flow's run, or a program that keeps what it likes.
        ActionKind::Db
        | ActionKind::Emit
        | ActionKind::Call
        | ActionKind::Ssh
        | ActionKind::Task => Some(KeyMemory::Forever),
        ActionKind::Http | ActionKind::Notify | ActionKind::Llm => {
            let said = step.guard.window(connection).unwrap_or(USUAL_MEMORY);
            let honoured = connection.and_then(|it| it.idempotency_keys.window);
            Some(KeyMemory::For(
                honoured.map_or(said, |window| window.max(said)),
            ))
        }
        // Their journal is the marker.
        ActionKind::Kv
        | ActionKind::Persist
        | ActionKind::Function
        | ActionKind::Wait
        | ActionKind::Approval
        | ActionKind::Switch
        | ActionKind::Foreach
        | ActionKind::Parallel
        | ActionKind::Fail
        | ActionKind::Return => None,
    }
}
