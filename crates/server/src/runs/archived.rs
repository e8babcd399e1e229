//! Runs that were deleted from the database and are in the archive.

use semel_api::Code;
use semel_api::types::{Act, ChildRun, RunDetail};
use semel_engine::memory::Portion;
use semel_engine::{ArchiveError, ArchivedText};
use semel_model::{RunId, Span};
use semel_store::archives::{self, ArchiveFile, FoundRun};
use semel_store::audit;
use sha2::{Digest as _, Sha256};

use crate::app::App;
use crate::archive::detail::read_items;
use crate::auth::Caller;
use crate::effects as effect_routes;
use crate::error::{ApiError, chain};
use crate::heavy;
use crate::query::PAGE_MAX;

/// How soon to retry for a run in an archive that does not answer, in seconds.
const REST_SECS: u64 = 10;

/// How often a file may be written anew while it is read.
const REPLACED_MAX: u32 = 3;

/// A run of the caller's namespace that is archived, as it was when it was. What operators did is told by its file and by the
/// audit record: the one does not know what came later, and the other may be kept for a shorter time. With the memory that
/// it takes, to be kept for as long as it is.
pub(super) async fn find(
    app: &App,
    caller: &Caller,
    run: RunId,
) -> Result<Option<(RunDetail, Option<Portion>)>, ApiError> {
    let namespace_id = caller.namespace_id;
    let read: Parse<RunDetail> =
        |text| serde_json::from_str(text).map(|it: RunDetail| (it.run.id, it));
    let Some(found) = find_as(app, namespace_id, run, read).await? else {
        return Ok(None);
    };
    let (mut detail, memory) = (found.said, found.memory);
    detail.run.archived_at = Some(found.file.written_at);
    let acts = audit::list_of_run(app.cell().of(run), namespace_id, run, PAGE_MAX);
    let acts = acts.await?.into_iter().map(effect_routes::view_act);
    let later: Vec<Act> = acts.filter(|act| !detail.acts.contains(act)).collect();
    detail.acts.extend(later);
    Ok(Some((detail, memory)))
}

/// The items and branches that an archived run of a namespace had, in order, with the memory that they take.
pub(crate) async fn find_items(
    app: &App,
    namespace_id: i32,
    run: RunId,
) -> Result<Option<(Vec<ChildRun>, Option<Portion>)>, ApiError> {
    let read: Parse<Vec<ChildRun>> = |text| read_items(text).map(|it| (it.id, it.items));
    let found = find_as(app, namespace_id, run, read).await?;
    Ok(found.map(|found| (found.said, found.memory)))
}

/// A run as the archive has it, parsed.
struct Found<T> {
    said: T,
    /// The file that says it.
    file: ArchiveFile,
    memory: Option<Portion>,
}

async fn find_as<T: Send + 'static>(
    app: &App,
    namespace_id: i32,
    run: RunId,
    parse: Parse<T>,
) -> Result<Option<Found<T>>, ApiError> {
    let mut error = None;
    for _ in 0..REPLACED_MAX {
        let found = archives::find(app.cell().of(run), namespace_id, run).await?;
        let Some(found) = found else {
            return Ok(None);
        };
        match read(app, &found, (namespace_id, run), parse).await? {
            Ok((said, memory)) => {
                return Ok(Some(Found {
                    said,
                    file: found.file,
                    memory,
                }));
            }
            // It may have been written anew between the look-up and the reading.
            Err(ArchiveError::Missing { object }) => error = Some(ArchiveError::Missing { object }),
            Err(error) => return Err(unavailable(&error)),
        }
    }
    Err(error.map_or_else(
        || ApiError::plain(Code::ArchiveUnavailable),
        |error| unavailable(&error),
    ))
}

/// Reads a run's row, or a part of it.
type Parse<T> = fn(&str) -> serde_json::Result<(RunId, T)>;

async fn read<T: Send + 'static>(
    app: &App,
    found: &FoundRun,
    (namespace_id, run): (i32, RunId),
    parse: Parse<T>,
) -> Result<Result<(T, Option<Portion>), ArchiveError>, ApiError> {
    let Some(archive) = app.engine.options().archive.as_ref() else {
        return Ok(Err(ArchiveError::Off));
    };
    let memory = &app.options.body_budget.shown;
    let of = (namespace_id, run);
    let (text, memory) = match archive.find(&found.file, of, memory).await {
        Ok(Some(ArchivedText { text, memory })) => (Some(text), memory),
        Ok(None) => (None, None),
        Err(error) => return Ok(Err(error)),
    };
    let (object, sha256) = (found.file.object.clone(), found.sha256.clone());
    // A run of many items is many megabytes.
    let said = heavy::compute(namespace_id, move || {
        check(text, &sha256, run, parse).map_err(|why| ArchiveError::Broken {
            object,
            why: why.to_owned(),
        })
    });
    Ok(said.await?.map(|said| (said, memory)))
}

fn check<T>(
    text: Option<String>,
    sha256: &[u8],
    run: RunId,
    parse: Parse<T>,
) -> Result<T, &'static str> {
    let text = text.ok_or("it does not have the run")?;
    if Sha256::digest(&text).as_slice() != sha256 {
        return Err("it does not say of the run what was written");
    }
    let (id, said) = parse(&text).map_err(|_| "the run was written by another version")?;
    match id == run {
        true => Ok(said),
        false => Err("it has another run in this one's place"),
    }
}

/// The refusal of what is asked of a run that is in the archive alone; any other stays as it is.
pub(crate) async fn explain(app: &App, namespace_id: i32, run: RunId, error: ApiError) -> ApiError {
    if error.problem().code() != Some(Code::RunNotFound) {
        return error;
    }
    match archives::find(app.cell().of(run), namespace_id, run).await {
        Ok(Some(_)) => ApiError::plain(Code::RunArchived).about(run),
        Ok(None) => error,
        Err(unread) => unread.into(),
    }
}

/// What the archive did not do, and whether it may later.
pub(super) fn unavailable(error: &ArchiveError) -> ApiError {
    tracing::warn!(error = chain(error), "the archive failed");
    let said = ApiError::new(Code::ArchiveUnavailable, error.to_string());
    match error {
        ArchiveError::Unreachable(_) | ArchiveError::Database(_) => {
            said.retry_in(Span::from_secs(REST_SECS))
        }
        ArchiveError::Off
        | ArchiveError::Missing { .. }
        | ArchiveError::Broken { .. }
        | ArchiveError::Run(_) => said,
    }
}
