//! What all sessions of a process share: which addresses they may reach, and how much they may ask.

use std::sync::Arc;

use crate::answer_room::AnswerRoom;
use crate::egress::Egress;
use crate::http::Tokens;
use crate::limits::DestinationLimits;
use crate::resources::{NoResources, ResourceStore};
use crate::stage::DestinationStage;

/// What all sessions of a process share. By default: public addresses, and no resources.
#[derive(Clone)]
pub struct Reach {
    /// Which addresses may be spoken to.
    pub egress: Arc<Egress>,
    /// How much each destination may be asked.
    pub limits: Arc<DestinationLimits>,
    /// Tokens that were fetched to sign in with.
    pub tokens: Arc<Tokens>,
    /// Memory for what destinations answered, while it is read.
    pub answers: Arc<AnswerRoom>,
    /// Where large bodies come from and go to.
    pub resources: Arc<dyn ResourceStore>,
    /// What answers in place of the executors, in a rehearsal.
    pub stage: Option<Arc<dyn DestinationStage>>,
}

impl Default for Reach {
    fn default() -> Self {
        Self {
            egress: Arc::default(),
            limits: Arc::default(),
            tokens: Arc::default(),
            answers: Arc::default(),
            resources: Arc::new(NoResources),
            stage: None,
        }
    }
}

impl Reach {
    /// Public addresses, and those special ranges that the operator opened.
    #[must_use]
    pub fn new(egress: Egress) -> Self {
        Self {
            egress: Arc::new(egress),
            ..Self::default()
        }
    }

    /// With room for as many runs at once as the process has in hand.
    #[must_use]
    pub fn with_capacity(self, runs: usize) -> Self {
        Self {
            limits: Arc::new(DestinationLimits::for_capacity(runs)),
            ..self
        }
    }

    /// With so many bytes of memory for what destinations answered, while it is read.
    #[must_use]
    pub fn with_answer_bytes(self, bytes: usize) -> Self {
        Self {
            answers: Arc::new(AnswerRoom::of_bytes(bytes)),
            ..self
        }
    }

    /// Every address there is: for tests and rehearsals, whose destinations are on this machine.
    #[must_use]
    pub fn open() -> Self {
        Self::new(Egress::open())
    }
}
