//! The archive as the engine uses it: runs are rendered as `GET /v1/runs/{run}` shows them, and written to a
//! file of rows.

use std::io;
use std::pin::pin;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use parquet::errors::ParquetError;
use semel_api::types::ChildRun;
use semel_engine::{
    ArchiveError, ArchivedText, Budget, ErasedFile, ResourceLocation, ResourceLocationError,
    RunArchive,
};
use semel_model::RunId;
use semel_store::archives::{ArchiveFile, FileContent, SpareFile};
use semel_store::child_runs::{self, ChildRunFilter};
use semel_store::retention::GoingKey;
use semel_store::{Cell, namespaces, runs};

use super::detail;
use crate::archive::{self, ArchiveFiles, ArchivedRow, FileWriter};
use crate::child_run_view::view as view_child;
use crate::error::chain;
use crate::links::without_links;

/// A file takes no further key once the details of its runs have this many bytes.
const FILE_BYTES_MAX: usize = 64 << 20;

/// The most bytes that the details of one key's runs have together: a key goes whole.
const KEY_BYTES_MAX: usize = 256 << 20;

/// How many runs are read from the database at once.
const READ_AT_ONCE: usize = 4;

/// How many items of a run are read from the database at once.
const ITEMS_AT_ONCE: i64 = 500;

/// How many runs are gathered before they are compressed, or how many bytes of them: memory holds no more, beside
/// what is read at once and the compressed file.
const RUNS_AT_ONCE: usize = 32;
const BYTES_AT_ONCE: usize = 1 << 20;

/// Ended runs as Parquet files in a folder or a bucket.
#[derive(Clone, Debug)]
pub struct RunFiles(ArchiveFiles);

impl RunFiles {
    /// The files at a place. A folder is made where it is missing; a bucket is not asked yet.
    ///
    /// # Errors
    ///
    /// If the place cannot be used.
    pub fn open(place: &ResourceLocation) -> Result<Self, ResourceLocationError> {
        ArchiveFiles::open(place).map(Self)
    }

    /// Tries whether files can be written and read there.
    ///
    /// # Errors
    ///
    /// If they cannot.
    pub async fn try_out(&self) -> io::Result<()> {
        self.0.try_out().await
    }

    async fn write_keys(
        &self,
        cell: &Cell,
        file: &SpareFile,
        keys: &[GoingKey],
    ) -> Result<(usize, FileContent), ArchiveError> {
        let mut writer = FileWriter::new().map_err(unwritten)?;
        let mut count = 0;
        for key in keys {
            if writer.raw_bytes() >= FILE_BYTES_MAX {
                break;
            }
            writer = add_key(cell, writer, key).await?;
            count += 1;
        }
        let finished = compress(move || writer.finish()).await?;
        Ok((count, self.0.write(file, finished).await?))
    }
}

impl RunArchive for RunFiles {
    fn write<'a>(
        &'a self,
        cell: &'a Cell,
        file: &'a SpareFile,
        keys: &'a [GoingKey],
    ) -> BoxFuture<'a, Result<(usize, FileContent), ArchiveError>> {
        Box::pin(self.write_keys(cell, file, keys))
    }

    fn find<'a>(
        &'a self,
        file: &'a ArchiveFile,
        run: (i32, RunId),
        memory: &'a Budget,
    ) -> BoxFuture<'a, Result<Option<ArchivedText>, ArchiveError>> {
        Box::pin(self.0.find(file, run, memory))
    }

    fn write_erased<'a>(
        &'a self,
        from: &'a ArchiveFile,
        to: &'a SpareFile,
        runs: &'a [RunId],
        at: Timestamp,
    ) -> BoxFuture<'a, Result<Option<ErasedFile>, ArchiveError>> {
        Box::pin(self.0.write_erased(from, to, runs, at))
    }

    fn remove<'a>(&'a self, object: &'a str) -> BoxFuture<'a, Result<(), ArchiveError>> {
        Box::pin(self.0.remove(object))
    }
}

/// Adds the runs of a key, in their order.
async fn add_key(
    cell: &Cell,
    mut writer: FileWriter,
    key: &GoingKey,
) -> Result<FileWriter, ArchiveError> {
    let namespace = namespaces::find_name(cell.home(), key.namespace_id).await?;
    let namespace = namespace.map(|name| name.to_string()).unwrap_or_default();
    let rows = key.runs.iter().copied();
    let rows = rows.map(|run| render(cell, key, &namespace, run));
    let mut rows = pin!(stream::iter(rows).buffered(READ_AT_ONCE));
    let (mut some, mut bytes, mut all_bytes) = (Vec::new(), 0, 0);
    while let Some(row) = rows.try_next().await? {
        bytes += row.detail.len();
        all_bytes += row.detail.len();
        if all_bytes > KEY_BYTES_MAX {
            let why = format!("{}: its key has more than {KEY_BYTES_MAX} bytes", row.run);
            return Err(ArchiveError::Run(why));
        }
        some.push(row);
        if some.len() == RUNS_AT_ONCE || bytes >= BYTES_AT_ONCE {
            writer = add_rows(writer, std::mem::take(&mut some)).await?;
            bytes = 0;
        }
    }
    add_rows(writer, some).await
}

async fn add_rows(
    mut writer: FileWriter,
    rows: Vec<ArchivedRow>,
) -> Result<FileWriter, ArchiveError> {
    compress(move || {
        for row in rows {
            writer.add(row)?;
        }
        Ok(writer)
    })
    .await
}

/// A run as the API shows it to a token that may see everything.
async fn render(
    cell: &Cell,
    key: &GoingKey,
    namespace: &str,
    run: RunId,
) -> Result<ArchivedRow, ArchiveError> {
    let found = runs::find(cell.of(run), key.namespace_id, run).await?;
    let found = found.ok_or_else(|| ArchiveError::Run(format!("{run} is gone")))?;
    let detail = detail::of_ended(cell, key.namespace_id, &found).await;
    let detail =
        detail.map_err(|error| ArchiveError::Run(format!("{run}: {}", error.problem().detail)))?;
    let items = match detail.child_runs.is_empty() {
        true => Vec::new(),
        false => list_items(cell, run).await?,
    };
    let text = archive::detail::write(&detail, &items);
    let text = text.map_err(|error| ArchiveError::Run(format!("{run}: {}", chain(&error))))?;
    let shown = detail.run;
    Ok(ArchivedRow {
        run: run.to_string(),
        namespace: namespace.to_owned(),
        flow: shown.flow,
        release: shown.release,
        key: shown.key,
        state: shown.state.as_str().to_owned(),
        accepted_at: shown.accepted_at,
        ended_at: shown.ended_at.unwrap_or(shown.accepted_at),
        detail: without_links(text),
    })
}

/// The items and branches of a run, in order. The row of each says what its result is.
async fn list_items(cell: &Cell, run: RunId) -> Result<Vec<ChildRun>, ArchiveError> {
    let (mut items, mut last) = (Vec::new(), None::<(String, i32)>);
    loop {
        let filter = ChildRunFilter {
            after: last.as_ref().map(|(step, index)| (step.as_str(), *index)),
            ..ChildRunFilter::default()
        };
        let found = child_runs::list(cell.of(run), run, filter, ITEMS_AT_ONCE).await?;
        let (count, shown) = (found.len(), found.iter().filter_map(view_child));
        items.extend(shown.map(|item| ChildRun {
            result: None,
            ..item
        }));
        if (count as i64) < ITEMS_AT_ONCE {
            return Ok(items);
        }
        // Of what was found, not of what can be shown: a page of states that this build does not know ends too.
        last = found.last().map(|item| (item.step.clone(), item.index));
    }
}

/// Off the threads that serve requests.
async fn compress<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ParquetError> + Send + 'static,
) -> Result<T, ArchiveError> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|_| ArchiveError::Run("compressing it panicked".to_owned()))?;
    done.map_err(unwritten)
}

fn unwritten(error: ParquetError) -> ArchiveError {
    ArchiveError::Run(chain(&error))
}
