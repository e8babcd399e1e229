//! What parent runs knew when their children began, for the children of this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use semel_model::RunId;

use crate::state::FoldedRun;

/// How many parent runs a process remembers.
const KNOWN_MAX: usize = 64;

/// What runs knew, by run and journal row.
#[derive(Default)]
pub(crate) struct ParentStates {
    known: Mutex<HashMap<(RunId, i32), Arc<FoldedRun>>>,
}

impl ParentStates {
    pub(crate) fn find(&self, run: RunId, seq: i32) -> Option<Arc<FoldedRun>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(run, seq)).cloned()
    }

    pub(crate) fn keep(&self, run: RunId, seq: i32, state: &Arc<FoldedRun>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert((run, seq), state.clone());
    }
}
