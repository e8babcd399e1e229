//! What decisions and announcements of a turn look at.

use super::Turn;
use crate::decide::DecideContext;
use crate::event::AnnounceContext;
use crate::runtime::jitter;
use crate::vault::Destinations;

impl Turn {
    /// What announcements are made from.
    pub(super) fn announce_context(&self) -> AnnounceContext<'_> {
        AnnounceContext {
            options: &self.runtime.options,
            release: &self.release,
            key: &self.key,
            seq: self.seq,
        }
    }

    /// What a decision may look at.
    pub(super) fn decide_context<'a>(
        &'a self,
        destinations: &'a Destinations,
    ) -> DecideContext<'a> {
        DecideContext {
            flow: &self.release.flow,
            destinations,
            run: &self.views.run,
            waits: &self.views.waits,
            landing: self.runtime.landing(),
            now: self.runtime.clock.now(),
            jitter: jitter(),
            cancel: self.cancel,
            answers: &self.answers,
            late_responses: &self.late_responses,
            outside: &self.outside,
            looked: self.looked,
            pauses: self.run_pauses(),
        }
    }
}
