//! The names of effects, where steps have business keys.

use jiff::Timestamp;
use semel_model::event::NameHolder;
use semel_model::{EffectId, EffectScope, Fingerprint, NamedEffectId};

/// The name of a step's effect, and what this run has to do with it.
#[derive(Clone, Debug)]
pub struct StepName {
    /// The named effect.
    pub name: NamedEffectId,
    /// Where its key counts.
    pub scope: EffectScope,
    /// Its key.
    pub key: String,
    /// The fingerprint of what the step sends, without a key in it.
    pub fingerprint: Fingerprint,
    /// The generation of the run's own effect.
    pub generation: u32,
    /// When the run asked for it.
    pub since: Timestamp,
    /// The run's hold, once it has or had one.
    pub hold: Option<NameHold>,
    /// What the run has to do with it now.
    pub standing: NameStanding,
}

/// A run's hold on a named effect.
#[derive(Clone, Copy, Debug)]
pub struct NameHold {
    /// What every report has to carry.
    pub token: i64,
    /// The key that the destination is sent.
    pub effect: EffectId,
}

/// What a run has to do with a named effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameStanding {
    /// It asked for it, and may hold it.
    Asked,
    /// Another holder has it.
    Waiting {
        /// That holder.
        behind: NameHolder,
        /// Whether it is in doubt there.
        in_doubt: bool,
    },
    /// It holds it for its next attempt.
    Held,
    /// It made an attempt under its hold, which is not settled.
    Used,
    /// It performed it.
    Done,
    /// It failed, was undone or was never sent: the run holds it no longer.
    Over,
}

impl StepName {
    /// The hold for the next attempt.
    pub fn held(&self) -> Option<NameHold> {
        self.hold.filter(|_| self.standing == NameStanding::Held)
    }

    /// The run continues after it was stopped. Where it had ended, the named effect was told what
    /// became of a hold, and only a doubt is still this run's.
    pub(crate) fn resumed(&mut self, had_ended: bool, in_doubt: bool, at: Timestamp) {
        match &self.standing {
            NameStanding::Done | NameStanding::Over => {}
            NameStanding::Used if in_doubt => {}
            NameStanding::Asked
            | NameStanding::Waiting { .. }
            | NameStanding::Held
            | NameStanding::Used
                if had_ended =>
            {
                self.standing = NameStanding::Over;
            }
            // Meanwhile an operator may have taken the name from a run that was quarantined.
            NameStanding::Held => {
                self.standing = NameStanding::Asked;
                self.since = at;
            }
            NameStanding::Asked | NameStanding::Waiting { .. } | NameStanding::Used => {
                self.since = at;
            }
        }
    }
}
