//! How a doubt is settled.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::effect::Licence;

/// How a doubt is settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum DoubtPlan {
    /// The guard lets it be performed again, at this time.
    Repeat {
        /// When.
        at: Timestamp,
        /// What allows it.
        licence: Licence,
    },
    /// A probe reads whether it happened, at this time.
    Probe {
        /// When.
        at: Timestamp,
        /// From when on *absent* is believed: until then a request in flight may still arrive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        absent_from: Option<Timestamp>,
    },
    /// An operator settles it.
    Review,
}
