//! Runs in lists: by their key, which people know, and not by their identity.

use std::collections::{BTreeSet, HashMap};

use semel_api::types::{Page, Run};
use semel_model::RunId;

use super::markup::{self, Markup};
use super::visit::Visit;
use super::words;
use crate::error::ApiError;

/// How many runs are asked for at once: as many as the API answers.
const ASKED_MAX: usize = 500;

/// The keys of runs.
pub(super) struct NamedRuns(HashMap<RunId, String>);

impl NamedRuns {
    /// The keys of these runs, by one question.
    pub(super) async fn of(visit: &Visit, runs: Vec<RunId>) -> Result<Self, ApiError> {
        let ids: BTreeSet<RunId> = runs.into_iter().collect();
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let mut keys = HashMap::new();
        for some in ids.chunks(ASKED_MAX) {
            let address = words::address("/v1/runs", &[("ids", &some.join(","))]);
            let found: Page<Run> = visit.get(&address).await?;
            keys.extend(found.items.into_iter().map(|run| (run.id, run.key)));
        }
        Ok(Self(keys))
    }

    /// A link to a run, by its key. What retention has removed is named by its identity.
    pub(super) fn link(&self, visit: &Visit, run: RunId) -> Markup {
        let id = run.to_string();
        let name = self.0.get(&run).unwrap_or(&id);
        markup::code(name).link(&visit.page(&format!("/runs/{id}")))
    }
}
