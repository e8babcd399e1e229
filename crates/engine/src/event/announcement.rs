//! What goes to the outbox, and what it is made from.

use semel_model::request::Emission;
use semel_model::{EffectId, Key};
use semel_store::outbox::Emitted;
use serde::Serialize;
use serde_json::Value;

use crate::catalogue::Release;
use crate::options::Options;

/// What announcements are made from, besides the run's state.
pub(crate) struct AnnounceContext<'a> {
    pub(crate) options: &'a Options,
    pub(crate) release: &'a Release,
    pub(crate) key: &'a Key,
    /// The number of the run's last journal row: it tells announcements of one name apart.
    pub(crate) seq: i32,
}

impl AnnounceContext<'_> {
    /// The number that goes into the identity of what is announced.
    pub(super) fn number(&self) -> u32 {
        u32::try_from(self.seq).unwrap_or_default()
    }
}

/// A message of Semel's own, under an identity that makes a repeat the same message.
pub(crate) fn message(effect: EffectId, event: &str, data: &impl Serialize) -> Emitted {
    let data = match serde_json::to_value(data) {
        Ok(data) => data,
        // Maps with text keys and plain values, by construction.
        Err(_) => Value::Null,
    };
    let event = event.to_owned();
    Emitted {
        effect,
        emission: Emission { event, data },
    }
}
