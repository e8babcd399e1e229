//! What a parent run knew when one of its child runs began.
//!
//! A child run's journal begins with a reference to its parent, not with a copy of everything that
//! the parent knew: a hundred thousand items of one list read the same journal, once per process.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::civil::Date;
use semel_flow::Flow;
use semel_model::RunId;
use semel_model::event::Event;
use semel_store::ReadError;
use semel_store::journal::{self, JournalRow};
use serde_json::error::Category;

use crate::event;
use crate::runtime::Runtime;
use crate::state::{FoldError, FoldedRun};

/// Why the state of a run, or something else that was recorded, cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unread {
    /// The database gave no answer.
    #[error("{0}")]
    Unavailable(String),
    /// It was written by a newer version of Semel: another server may be able to read it.
    #[error("{0}, which this version of Semel does not know")]
    Newer(String),
    /// It cannot be read.
    #[error("{0}")]
    Damaged(String),
    /// Its events do not follow on each other.
    #[error(transparent)]
    Inconsistent(#[from] FoldError),
}

impl Unread {
    /// Of two reasons for which something is left, the one that may pass first.
    pub(crate) fn sooner(self, other: Self) -> Self {
        let rank = |unread: &Self| match unread {
            Self::Unavailable(_) => 0,
            Self::Newer(_) => 1,
            Self::Damaged(_) | Self::Inconsistent(_) => 2,
        };
        match rank(&other) < rank(&self) {
            true => other,
            false => self,
        }
    }

    /// Something that is JSON and does not have the form that this version knows was written by another version.
    pub(crate) fn of_json(what: &str, error: &serde_json::Error) -> Self {
        let what = format!("{what}: {error}");
        match error.classify() {
            Category::Data => Self::Newer(what),
            Category::Syntax | Category::Eof | Category::Io => Self::Damaged(what),
        }
    }
}

impl From<ReadError> for Unread {
    fn from(error: ReadError) -> Self {
        match error.refusal() {
            Some(words) => Self::Damaged(words),
            None => Self::Unavailable(error.to_string()),
        }
    }
}

/// Reads the events of a row.
pub(super) fn read(line: &JournalRow) -> Result<Vec<Event>, Unread> {
    let what = || format!("row {} of its journal", line.seq);
    line.read()
        .map_err(|error| Unread::of_json(&what(), &error))
}

/// What is true of a run, from its journal.
pub(crate) fn fold<'a>(
    runtime: &'a Runtime,
    flow: &'a Flow,
    run: RunId,
    lines: &'a [JournalRow],
) -> BoxFuture<'a, Result<FoldedRun, Unread>> {
    Box::pin(async move {
        let mut state = FoldedRun::new(run);
        for line in lines {
            for event in read(line)? {
                let fitted = match begins_in(&state, &event) {
                    Some((parent, partition_date, seq)) => {
                        let parent = knew(runtime, flow, parent, partition_date, seq).await?;
                        event::begin_child(run, &parent, event, flow).map(|child| state = child)
                    }
                    None => event::apply_owned(&mut state, event, flow, line.at),
                };
                fitted.map_err(|misfit| misfit.at(line.seq))?;
            }
        }
        Ok(state)
    })
}

/// The run that a child run begins in, its partition and the row up to which it knows it, where
/// this event is such a beginning.
fn begins_in(state: &FoldedRun, event: &Event) -> Option<(RunId, Date, i32)> {
    if let Event::Begun(begun) = event
        && !state.begun
    {
        return Some((begun.parent, begun.partition_date, begun.seq));
    }
    None
}

/// What a run knew at a row of its journal.
async fn knew(
    runtime: &Runtime,
    flow: &Flow,
    run: RunId,
    partition_date: Date,
    seq: i32,
) -> Result<Arc<FoldedRun>, Unread> {
    if let Some(state) = runtime.local.parents.find(run, seq) {
        return Ok(state);
    }
    let mut lines = journal::read(runtime.cell.of(run), partition_date, run).await?;
    lines.retain(|line| line.seq <= seq);
    let state = Arc::new(fold(runtime, flow, run, &lines).await?);
    runtime.local.parents.keep(run, seq, &state);
    Ok(state)
}
