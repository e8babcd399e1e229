//! Which entries a batch that gathers writes to already.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use semel_model::kv::Verb;

use super::Write;
use crate::journal::Transition;

/// How many of one commit may write to one entry: each leaves a version of it until the commit. Additions
/// are made as one, or as a few between other writes.
const ENTRY_WRITES_MAX: usize = 32;

/// How often each entry is written to by a batch that gathers, by a hash of its name: two names that
/// share one only wait for each other.
#[derive(Default)]
pub struct GatheredEntries {
    uses: HashMap<u64, EntryUse>,
    hasher: RandomState,
}

#[derive(Clone, Copy, Default)]
struct EntryUse {
    /// How often it is written to; all additions to it count as one.
    count: usize,
    added: bool,
    compared: bool,
}

impl GatheredEntries {
    /// Takes note of a transition, or says that it may not join: one entry is not written to by too
    /// many of one commit, and one that compares before it sets has its entry to itself, because it
    /// takes two round trips.
    pub(crate) fn admit(&mut self, next: &Transition) -> bool {
        let used = |write: &Write| {
            let entry = (next.namespace_id, write.operation.entry.as_str());
            let adds = matches!(write.operation.verb, Verb::Add { .. });
            (self.hasher.hash_one(entry), adds, compares(write))
        };
        let used: Vec<(u64, bool, bool)> = next.kv.iter().map(used).collect();
        let may_join = used.iter().all(|(entry, adds, compares)| {
            let before = self.uses.get(entry).copied().unwrap_or_default();
            let has_room = before.count < ENTRY_WRITES_MAX || (*adds && before.added);
            has_room && !before.compared && (before.count == 0 || !compares)
        });
        if may_join {
            for (entry, adds, compares) in used {
                let known = self.uses.entry(entry).or_default();
                known.count += usize::from(!(adds && known.added));
                known.added |= adds;
                known.compared |= compares;
            }
        }
        may_join
    }
}

fn compares(write: &Write) -> bool {
    match &write.operation.verb {
        Verb::Set { expect, .. } => expect.as_ref().is_some_and(|value| !value.is_null()),
        Verb::Add { .. } | Verb::Delete | Verb::Lock { .. } | Verb::Unlock | Verb::Get => false,
    }
}
