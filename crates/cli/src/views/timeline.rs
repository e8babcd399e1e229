//! A run's timeline: each event of its journal as one line, in the server's words.

use jiff::Timestamp;
use semel_api::types::JournalLine;
use semel_model::Event;
use semel_model::run::EndState;
use serde::Deserialize as _;
use serde_json::Value;

use crate::style::{Style, Tone};
use crate::text::{offset, printable};

/// The lines of a journal, each with its time since the run was accepted.
pub(crate) fn lines(journal: &[JournalLine], start: Timestamp, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    for line in journal {
        for event in &line.events {
            let at = format!("{:>9}", offset(start, line.at));
            let text = style.toned(tone_of(&event.event), &printable(&event.summary));
            lines.push(format!("  {}  {text}", style.dim(&at)));
        }
    }
    lines
}

/// How an event is shown; plain where a newer server wrote it.
fn tone_of(event: &Value) -> Tone {
    match Event::deserialize(event) {
        Ok(known) => tone(&known),
        Err(_) => Tone::Plain,
    }
}

const fn tone(event: &Event) -> Tone {
    match event {
        Event::Done { .. } => Tone::Good,
        Event::ApprovalDecided { decision, .. } => match decision.approved {
            true => Tone::Good,
            false => Tone::Bad,
        },
        Event::ApprovalElapsed { .. } => Tone::Odd,
        Event::Failed { .. } | Event::ReadFailed { .. } | Event::Broken { .. } => Tone::Bad,
        Event::Doubted { .. } | Event::Stopped { .. } | Event::Undoing { .. } => Tone::Odd,
        Event::FanEnded { fault: Some(_), .. } => Tone::Bad,
        Event::Ended { state, .. } => match state {
            EndState::Succeeded => Tone::Good,
            EndState::Failed | EndState::Cancelled | EndState::Superseded => Tone::Bad,
        },
        Event::Accepted { .. }
        | Event::GateWaiting(_)
        | Event::Admitted { .. }
        | Event::Joined { .. }
        | Event::Begun(_)
        | Event::Follows(_)
        | Event::Inherited { .. }
        | Event::Reused { .. }
        | Event::TakenOver { .. }
        | Event::Named { .. }
        | Event::Switched { .. }
        | Event::FanOpened { .. }
        | Event::FanLoaded { .. }
        | Event::FanStopped { .. }
        | Event::FanEnded { fault: None, .. }
        | Event::Started { .. }
        | Event::Computed { .. }
        | Event::Skipped { .. }
        | Event::Intended { .. }
        | Event::Probed { .. }
        | Event::Licensed { .. }
        | Event::WaitOpened { .. }
        | Event::WaitEnded { .. }
        | Event::ApprovalOpened { .. }
        | Event::ApprovalTold { .. }
        | Event::Resumed { .. }
        | Event::Deferred(_)
        | Event::OperatorStep(_)
        | Event::Amended(_) => Tone::Plain,
    }
}

#[cfg(test)]
mod tests {
    use semel_api::types::JournalEvent;
    use serde_json::json;

    use super::*;

    fn told(summary: &str, event: Value) -> String {
        let start = Timestamp::from_second(0).unwrap();
        let at = Timestamp::from_millisecond(12).unwrap();
        let summary = summary.to_owned();
        let line = JournalLine {
            seq: 1,
            at,
            events: vec![JournalEvent { summary, event }],
        };
        lines(&[line], start, Style::PLAIN).join("\n")
    }

    #[test]
    fn each_event_is_one_line_with_its_time() {
        let event = json!({"event": "done", "step": "invoice", "by": "answer",
            "external_id": "inv_1", "status": 201, "result": {}});

        assert_eq!(
            told("invoice: done with 201", event),
            "    +0.012s  invoice: done with 201"
        );
    }

    #[test]
    fn an_event_of_a_newer_server_is_shown_by_its_name() {
        assert_eq!(
            told("teleported", json!({"event": "teleported"})),
            "    +0.012s  teleported"
        );
    }

    #[test]
    fn a_payload_cannot_steer_the_terminal() {
        let event = json!({"event": "licensed", "step": "a", "reason": "x\u{1b}[2J\ny"});

        let line = told("a: x\u{1b}[2J\ny", event);

        assert!(line.ends_with("x\\u{1b}[2J\\ny"), "{line}");
    }
}
