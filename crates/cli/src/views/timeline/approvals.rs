//! Approvals in a run's timeline.

use semel_model::Event;
use semel_model::approval::{OnTimeout, Told};

/// An event of an approval in words; nothing for any other.
pub(super) fn tell(event: &Event) -> String {
    if let Event::ApprovalOpened {
        step,
        wait,
        until,
        asked,
    } = event
    {
        let until = until.map_or_else(String::new, |at| format!(", until {at}"));
        let people = asked.from.join(", ");
        format!("{step}: asks {people} ({wait}{until})")
    } else if let Event::ApprovalTold { step, what } = event {
        match what {
            Told::Reminded { number, .. } => format!("{step}: reminded, {number} so far"),
            Told::Escalated => format!("{step}: escalated, half of the time is over"),
        }
    } else if let Event::ApprovalDecided { step, decision } = event {
        let verb = match decision.approved {
            true => "approved",
            false => "rejected",
        };
        let said = decision.comment.as_deref();
        let said = said.map_or_else(String::new, |said| format!(": {said}"));
        format!("{step}: {verb} by {}{said}", decision.by)
    } else if let Event::ApprovalElapsed { step, policy } = event {
        let then = match policy {
            OnTimeout::Reject => "which counts as a rejection",
            OnTimeout::Fail => "and the run fails",
            OnTimeout::Continue => "and the run goes on",
        };
        format!("{step}: nobody decided in time, {then}")
    } else {
        String::new()
    }
}
