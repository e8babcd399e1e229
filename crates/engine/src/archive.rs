//! The archive: where ended runs go that are deleted from the database. What a file looks like is its
//! implementation's; which file has which run is in the database.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::io;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use semel_model::{NamedEffectId, RunId};
use semel_store::archives::{self, ArchiveFile, FileContent, SpareFile};
use semel_store::retention::GoingKey;
use semel_store::{Cell, EveryCell, ReadError};
use uuid::Uuid;

use crate::memory::{Budget, Portion};

/// Writes runs to files and reads them back.
pub trait RunArchive: Debug + Send + Sync {
    /// Writes the runs of keys to a file, as they are now: of as many keys as one file takes, from the first on. Gives
    /// how many keys that is.
    fn write<'a>(
        &'a self,
        cell: &'a Cell,
        file: &'a SpareFile,
        keys: &'a [GoingKey],
    ) -> BoxFuture<'a, Result<(usize, FileContent), ArchiveError>>;

    /// Reads a run of a namespace from a file once there is memory for it, as the API's JSON. Nothing if the run is not in it.
    fn find<'a>(
        &'a self,
        file: &'a ArchiveFile,
        run: (i32, RunId),
        memory: &'a Budget,
    ) -> BoxFuture<'a, Result<Option<ArchivedText>, ArchiveError>>;

    /// Writes a file anew, without what was said in some of its runs. Nothing where nothing of them is left to erase.
    fn write_erased<'a>(
        &'a self,
        from: &'a ArchiveFile,
        to: &'a SpareFile,
        runs: &'a [RunId],
        at: Timestamp,
    ) -> BoxFuture<'a, Result<Option<ErasedFile>, ArchiveError>>;

    /// Removes a file; nothing where there is none.
    fn remove<'a>(&'a self, object: &'a str) -> BoxFuture<'a, Result<(), ArchiveError>>;
}

/// A run as its archive file has it.
#[derive(Debug)]
pub struct ArchivedText {
    /// The run's detail as the API's JSON.
    pub text: String,
    /// The memory that it takes, with what it becomes; none where that is little.
    pub memory: Option<Portion>,
}

/// A file that was written anew, and what the runs that were erased in it have left elsewhere.
#[derive(Clone, Debug)]
pub struct ErasedFile {
    /// The new file.
    pub content: FileContent,
    /// The keys of the runs.
    pub keys: BTreeSet<String>,
    /// The named effects that they performed.
    pub names: BTreeSet<(NamedEffectId, RunId)>,
    /// The runs of other keys that they started.
    pub started: BTreeSet<RunId>,
}

/// Why the archive did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It did not answer: it may later.
    #[error("the archive does not answer")]
    Unreachable(#[source] io::Error),
    /// The server has none, and others of the installation do.
    #[error(
        "this server has no archive, and the run is in one: set `serve.archive` as on the other servers"
    )]
    Off,
    /// The file is not there: it was written anew meanwhile, or the archive has lost it.
    #[error("the archive has no file {object}")]
    Missing {
        /// The file.
        object: String,
    },
    /// The file is not what was written.
    #[error("the file {object} of the archive cannot be read: {why}")]
    Broken {
        /// The file.
        object: String,
        /// What is wrong with it.
        why: String,
    },
    /// A run could not be read from the database.
    #[error("a run cannot be read to be archived: {0}")]
    Run(String),
    /// The database did not answer.
    #[error(transparent)]
    Database(#[from] ReadError),
}

/// Reserves a name that no file has had.
pub(crate) async fn reserve(
    cell: EveryCell<'_>,
    now: Timestamp,
) -> Result<SpareFile, ArchiveError> {
    let (day, id) = (now.strftime("%Y/%m/%d"), Uuid::now_v7().simple());
    Ok(archives::reserve(cell, &format!("runs/{day}/{id}.parquet")).await?)
}

/// Removes files that nothing needs: those that were written anew, whose time is over, or that a crash left.
pub(crate) async fn remove_unneeded(
    cell: EveryCell<'_>,
    archive: &dyn RunArchive,
) -> Result<(), ArchiveError> {
    let mut refused = None;
    loop {
        let (unneeded, mut gone) = (archives::take_unneeded(cell).await?, 0);
        for file in &unneeded {
            match archive.remove(&file.object).await {
                Ok(()) => {
                    archives::forget(cell, file).await?;
                    gone += 1;
                }
                // It holds up no other.
                Err(error) => {
                    archives::put_off(cell, file).await?;
                    refused = Some(error);
                }
            }
        }
        if gone == 0 {
            return refused.map_or(Ok(()), Err);
        }
    }
}
