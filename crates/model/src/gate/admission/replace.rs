//! Taking the place of an older run.

use super::{AdmissionState, GateEntry, GatePlace, GateVerdict};
use crate::id::RunId;

impl AdmissionState {
    /// The newest run of an object takes the place of all others.
    pub(super) fn replace(&mut self, ticket: GateEntry) -> GateVerdict {
        if let Some(by) = self.drop_older(&ticket) {
            return GateVerdict::Dropped { by };
        }
        if let Some(holder) = self.holder()
            && ticket.is_before(&holder)
        {
            return GateVerdict::Dropped { by: holder.run };
        }
        self.want_place(&ticket);
        self.queue_up(ticket)
    }

    /// Notes that the running run has to end. On every visit: the worker that asked before may have
    /// crashed before it asked the run to end.
    pub(super) fn want_place(&mut self, ticket: &GateEntry) {
        if let Some(holder) = self.holder()
            && holder.place == GatePlace::Running
        {
            self.wanted = Some(holder.run);
            if holder.related_run != Some(ticket.run) {
                self.put(GateEntry {
                    related_run: Some(ticket.run),
                    ..holder
                });
            }
        }
    }

    /// Makes every run that has not begun give way to a run. Returns a run that is newer, if any.
    pub(super) fn drop_older(&mut self, ticket: &GateEntry) -> Option<RunId> {
        let outside = |other: &&GateEntry| other.place.is_outside() && other.run != ticket.run;
        let others: Vec<GateEntry> = self.entries.values().filter(outside).copied().collect();
        if let Some(newer) = others.iter().find(|other| ticket.is_before(other)) {
            return Some(newer.run);
        }
        for other in others {
            if other.place == GatePlace::Granted {
                self.granted = self.granted.saturating_sub(1);
            }
            let dropped = GateEntry {
                place: GatePlace::Dropped,
                related_run: Some(ticket.run),
                ..other
            };
            self.summon(dropped, self.now);
        }
        None
    }
}
