//! What a run knows of the runs of its key before it.

use std::collections::BTreeMap;

use semel_model::{PastEffect, PastResult, RunId};

/// The runs of the key before this one, and what they did.
#[derive(Clone, Debug)]
pub struct EarlierRuns {
    /// The first run of the key, or the child run at the same place of it: keys derive from it.
    pub first: RunId,
    /// The run before this one, where there is one.
    pub last: Option<RunId>,
    /// How many times the key came back as a new intent.
    pub intent: u32,
    /// The steps whose done effects are reused although their requests differ now.
    pub accepts: Vec<String>,
    /// The steps that change nothing and keep their results.
    pub kept: Vec<String>,
    /// Those results, by step.
    pub results: BTreeMap<String, PastResult>,
    /// What they did, by step, once that is known.
    pub effects: Option<BTreeMap<String, PastEffect>>,
    /// All of them that history knows, the latest first.
    pub runs: Vec<RunId>,
}

impl EarlierRuns {
    /// Whether what the run before this one did was read.
    pub fn are_read(&self) -> bool {
        self.last.is_some() && self.effects.is_some()
    }

    /// What they came to at a step.
    pub fn at(&self, step: &str) -> Option<&PastEffect> {
        self.effects.as_ref()?.get(step)
    }

    /// The result that a step keeps, where it is not made again.
    pub fn kept(&self, step: &str) -> Option<&PastResult> {
        self.kept.iter().find(|kept| *kept == step)?;
        self.results.get(step)
    }

    /// What a child run knows of the child runs at its place before it.
    pub fn of_child(&self, first: RunId, last: Option<RunId>) -> Self {
        Self {
            first,
            last,
            intent: self.intent,
            accepts: self.accepts.clone(),
            kept: Vec::new(),
            results: BTreeMap::new(),
            effects: last.is_none().then(BTreeMap::new),
            runs: Vec::new(),
        }
    }
}
