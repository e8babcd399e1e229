//! What a run sent, read from its journal.

use semel_model::RunId;
use semel_model::event::Event;
use semel_model::request::StepRequest;
use semel_store::{ReadError, journal, runs};

use crate::runtime::Runtime;

/// The latest request of a step; nothing where the journal is gone or cannot be read.
pub(crate) async fn request_of(
    runtime: &Runtime,
    namespace_id: i32,
    run: RunId,
    step: &str,
) -> Result<Option<StepRequest>, ReadError> {
    let cell = &runtime.cell;
    let found = runs::find_release(cell.of(run), namespace_id, run).await?;
    let Some((_, partition_date)) = found else {
        return Ok(None);
    };
    let rows = journal::read(cell.of(run), partition_date, run).await?;
    let mut sent = None;
    for event in rows.iter().flat_map(|row| row.read().unwrap_or_default()) {
        if let Event::Intended {
            step: at,
            request: Some(request),
            ..
        } = event
            && at == step
        {
            sent = Some(*request);
        }
    }
    Ok(sent)
}
