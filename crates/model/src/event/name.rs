//! The names of events, as the journal spells them.

use super::Event;

impl Event {
    /// Whether an attempt at an effect begins with it.
    pub const fn is_intent(&self) -> bool {
        matches!(self, Self::Intended { .. })
    }

    /// The event's name: what its journal row says under `event`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Accepted { .. } => "accepted",
            Self::Begun(_) => "begun",
            Self::Follows { .. } => "follows",
            Self::Inherited { .. } => "inherited",
            Self::Reused { .. } => "reused",
            Self::TakenOver { .. } => "taken_over",
            Self::Named { .. } => "named",
            Self::Switched { .. } => "switched",
            Self::FanOpened { .. } => "fan_opened",
            Self::FanLoaded { .. } => "fan_loaded",
            Self::FanStopped { .. } => "fan_stopped",
            Self::FanEnded { .. } => "fan_ended",
            Self::Started { .. } => "started",
            Self::Undoing { .. } => "undoing",
            Self::GateWaiting(_) => "gate_waiting",
            Self::Admitted { .. } => "admitted",
            Self::Joined { .. } => "joined",
            Self::Computed { .. } => "computed",
            Self::ReadFailed { .. } => "read_failed",
            Self::Skipped { .. } => "skipped",
            Self::Broken { .. } => "broken",
            Self::Intended { .. } => "intended",
            Self::Done { .. } => "done",
            Self::Failed { .. } => "failed",
            Self::Doubted { .. } => "doubted",
            Self::Probed { .. } => "probed",
            Self::Licensed { .. } => "licensed",
            Self::WaitOpened { .. } => "wait_opened",
            Self::WaitEnded { .. } => "wait_ended",
            Self::ApprovalOpened { .. } => "approval_opened",
            Self::ApprovalTold { .. } => "approval_told",
            Self::ApprovalDecided { .. } => "approval_decided",
            Self::ApprovalElapsed { .. } => "approval_elapsed",
            Self::Stopped { .. } => "stopped",
            Self::Resumed { .. } => "resumed",
            Self::Deferred(_) => "deferred",
            Self::OperatorStep(_) => "operator_step",
            Self::Amended(_) => "amended",
            Self::Ended { .. } => "ended",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::GateKind;

    #[test]
    fn an_event_is_named_as_the_journal_spells_it() {
        let step = || "a".to_owned();
        let events = [
            Event::FanOpened { step: step() },
            Event::Skipped { step: step() },
            Event::Admitted {
                gate: GateKind::Limit,
            },
        ];

        for event in events {
            let spelt = serde_json::to_value(&event).unwrap();
            assert_eq!(spelt["event"], event.name());
        }
    }
}
