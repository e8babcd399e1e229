//! What happens to the name of a step's effect, where the step has a business key.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fingerprint::Fingerprint;
use crate::id::{EffectId, NamedEffectId, RunId};
use crate::named_effect::EffectScope;

/// One thing that happened to the name of a step's effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum NameEvent {
    /// The step is about to begin the named effect: from here on the run may hold it.
    Asked {
        /// The named effect.
        name: NamedEffectId,
        /// Where its key counts.
        scope: EffectScope,
        /// Its key.
        key: String,
        /// The fingerprint of what the step sends, without a key in it.
        fingerprint: Fingerprint,
        /// The generation of the run's own effect, which tells the hold from others of the run.
        #[serde(default, skip_serializing_if = "super::is_zero")]
        generation: u32,
    },
    /// The named effect is this run's to perform.
    Held {
        /// The token of the hold.
        token: i64,
        /// The key that the destination is sent.
        effect: EffectId,
    },
    /// Another holder has it: the run waits.
    Waiting {
        /// That holder.
        behind: NameHolder,
        /// Whether it is in doubt there.
        in_doubt: bool,
    },
    /// Another holder had performed it: its result is reused, and nothing is sent.
    Reused {
        /// The key that the destination was sent.
        effect: EffectId,
        /// That holder.
        by: NameHolder,
        /// The destination's identity for what was made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        external_id: Option<String>,
        /// The HTTP status, where there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        /// The step's result.
        result: Value,
    },
    /// The run is about to undo the effect: whoever asks for the name waits. `step` is the one that
    /// undoes it.
    Undoing {
        /// The name that knows of it; absent where no name is left that could be asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held: Option<UndoneName>,
    },
    /// Other runs reused the effect: an operator decides whether it is undone.
    Shared {
        /// How many times it was reused.
        count: u32,
        /// The first of the runs that reused it.
        by: Vec<RunId>,
    },
    /// An operator resumed the run: the effect that others reused stays as it is.
    Left,
}

/// The name of an effect that is being undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoneName {
    /// The named effect.
    pub name: NamedEffectId,
    /// The token of the hold under which it was performed.
    pub token: i64,
}

/// What performs or performed a named effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameHolder {
    /// A run.
    Run(RunId),
    /// A process outside, by host and process.
    Script(String),
}

impl std::fmt::Display for NameHolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Run(run) => run.fmt(f),
            Self::Script(name) => write!(f, "semel once on {name}"),
        }
    }
}
