//! The clocks of a run: everything in its state that counts time, and stands still with a pause.
//!
//! Instants that are not the run's own are no clocks: the one that `wait: { until }` names, the end of
//! a destination's memory of a key, and the time until a request has landed.

use semel_flow::Flow;
use semel_flow::release::{Action, WaitStep};
use semel_model::Span;
use semel_model::request::StepRequest;

use super::{Current, FoldedRun, NameStanding};

/// One thing that counts time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunClock {
    /// A timer, or the time limit of a wait.
    Wait,
    /// The time limit, the next reminder and the escalation of an approval.
    Approval,
    /// The time limit of a read's retries.
    Read,
    /// The time limit of an effect's retries, and of a task's claim and answer.
    Effect,
    /// The time limit of waiting for a business key.
    Name,
}

impl RunClock {
    const ALL: [Self; 5] = [
        Self::Wait,
        Self::Approval,
        Self::Read,
        Self::Effect,
        Self::Name,
    ];

    /// Whether the run counts by this clock where it stands.
    fn runs(self, state: &FoldedRun, flow: &Flow) -> bool {
        match self {
            Self::Wait => {
                let names_instant = state
                    .step(flow)
                    .is_some_and(|step| matches!(&step.action, Action::Wait(WaitStep::Until(_))));
                matches!(state.current, Current::Waiting { .. }) && !names_instant
            }
            Self::Approval => matches!(state.current, Current::Approving(_)),
            Self::Read => matches!(state.current, Current::Reading(_)),
            Self::Effect => matches!(state.current, Current::Effect(_)),
            Self::Name => state
                .step(flow)
                .and_then(|step| state.names.get(step.id.as_str()))
                .is_some_and(|named| match named.standing {
                    NameStanding::Asked
                    | NameStanding::Waiting { .. }
                    | NameStanding::Held
                    | NameStanding::Used => true,
                    NameStanding::Done | NameStanding::Over => false,
                }),
        }
    }

    /// The connection whose pauses stop this clock too.
    fn connection<'a>(self, state: &'a FoldedRun, flow: &'a Flow) -> Option<&'a str> {
        match self {
            // These pass while a connection is paused.
            Self::Wait | Self::Approval | Self::Read => None,
            Self::Effect => state.effect()?.request.connection(),
            Self::Name => state.step(flow)?.connection(),
        }
    }

    /// Moves it by the time of a pause.
    fn stand_still(self, state: &mut FoldedRun, flow: &Flow, by: Span) {
        let later = by.to_duration();
        let name = state.step(flow).map(|step| step.id.as_str());
        match (self, &mut state.current) {
            (Self::Wait, Current::Waiting { until, .. }) => {
                *until = until.map(|until| until + later);
            }
            (Self::Approval, Current::Approving(approving)) => {
                let times = [
                    &mut approving.until,
                    &mut approving.remind_at,
                    &mut approving.escalate_at,
                ];
                for time in times {
                    *time = time.map(|time| time + later);
                }
            }
            (Self::Read, Current::Reading(reading)) => reading.since += later,
            (Self::Effect, Current::Effect(pending)) => {
                pending.deferred = Span::from_millis(pending.deferred.as_millis() + by.as_millis());
                if let StepRequest::Task(request) = &mut pending.request {
                    request.until = request.until.map(|until| until + later);
                }
            }
            (Self::Name, _) => {
                if let Some(named) = name.and_then(|name| state.names.get_mut(name)) {
                    named.since += later;
                }
            }
            (Self::Wait | Self::Approval | Self::Read | Self::Effect, _) => {}
        }
    }
}

impl FoldedRun {
    /// The clocks that run where the run stands: the one list of them.
    pub(crate) fn clocks<'a>(&'a self, flow: &'a Flow) -> impl Iterator<Item = RunClock> + 'a {
        let all = RunClock::ALL.into_iter();
        all.filter(move |clock| clock.runs(self, flow))
    }

    /// Whether anything counts time where the run stands.
    pub(crate) fn counts_time(&self, flow: &Flow) -> bool {
        self.clocks(flow).next().is_some()
    }

    /// The connection whose pauses stop a clock of the run, besides the pauses of its flow.
    pub(crate) fn counted_over<'a>(&'a self, flow: &'a Flow) -> Option<&'a str> {
        self.clocks(flow)
            .find_map(|clock| clock.connection(self, flow))
    }

    /// Every clock of the run stood still for so long.
    pub(crate) fn defer(&mut self, flow: &Flow, by: Span) {
        let clocks: Vec<RunClock> = self.clocks(flow).collect();
        for clock in clocks {
            clock.stand_still(self, flow, by);
        }
    }
}

#[cfg(test)]
mod tests;
