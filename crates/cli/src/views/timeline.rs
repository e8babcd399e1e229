//! A run's timeline: each event of its journal as one line.

use jiff::Timestamp;
use semel_api::types::JournalLine;
use semel_model::effect::{Licence, Witness};
use semel_model::event::{Plan, Seen, WaitEnd};
use semel_model::gate::Kind;
use semel_model::outcome::Fault;
use semel_model::run::EndState;
use semel_model::{Event, RunId};
use serde_json::Value;

mod approvals;
mod ways;

use super::value;
use crate::style::{Style, Tone};
use crate::text::{offset, printable};

/// The lines of a journal, each with its time since the run was accepted.
pub(crate) fn lines(journal: &[JournalLine], start: Timestamp, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    for line in journal {
        for event in &line.events {
            let at = format!("{:>9}", offset(start, line.at));
            let (tone, text) = sentence(event);
            let text = style.toned(tone, &printable(&text));
            lines.push(format!("  {}  {text}", style.dim(&at)));
        }
    }
    lines
}

/// An event in words. One that a newer server wrote is shown by its name.
fn sentence(event: &Value) -> (Tone, String) {
    match serde_json::from_value::<Event>(event.clone()) {
        Ok(known) => (tone(&known), tell(&known)),
        Err(_) => (
            Tone::Plain,
            event["event"].as_str().unwrap_or("something").to_owned(),
        ),
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
        Event::Doubted { .. } | Event::Parked { .. } | Event::Undoing { .. } => Tone::Odd,
        Event::FanEnded { fault: Some(_), .. } => Tone::Bad,
        Event::Ended { state, .. } => match state {
            EndState::Succeeded => Tone::Good,
            EndState::Failed | EndState::Cancelled => Tone::Bad,
        },
        Event::Accepted { .. }
        | Event::Held { .. }
        | Event::Admitted { .. }
        | Event::Joined { .. }
        | Event::Begun { .. }
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
        | Event::Amended { .. } => Tone::Plain,
    }
}

fn tell(event: &Event) -> String {
    match event {
        Event::Accepted {
            nominal: Some(nominal),
            input,
            ..
        } => format!("accepted by schedule for {nominal}: {}", value(input)),
        Event::Accepted { trigger, input, .. } => {
            format!("accepted by {trigger}: {}", value(input))
        }
        Event::Computed {
            step,
            result,
            usage,
            ..
        } => format!("{step}: gave {}{}", value(result), used(usage)),
        Event::Held {
            gate,
            behind,
            until,
            ..
        } => tell_held(*gate, *behind, *until),
        Event::Admitted { gate } => format!("let in by `{gate}`"),
        Event::Joined { run } => format!("joins {run}, and ends as it does"),
        Event::Skipped { step } => format!("{step}: skipped, its condition is false"),
        Event::Resumed { reason, by, .. } => {
            let by = by.as_deref().unwrap_or("Semel");
            format!("resumed by {by}: {reason}")
        }
        Event::Amended { step, result, .. } => {
            format!("{step}: its result was corrected to {}", value(result))
        }
        Event::Parked { fault, .. } => format!("kept for a person: {}", fault.message),
        Event::WaitOpened {
            step, wait, until, ..
        } => {
            let until = until.map_or_else(String::new, |at| format!(", until {at}"));
            format!("{step}: waits ({wait}{until})")
        }
        Event::WaitEnded { step, how } => match how {
            WaitEnd::Elapsed => format!("{step}: its time came"),
            WaitEnd::TimedOut => format!("{step}: nobody answered in time"),
            WaitEnd::Answered { payload } => format!("{step}: answered with {}", value(payload)),
        },
        Event::ApprovalOpened { .. }
        | Event::ApprovalTold { .. }
        | Event::ApprovalDecided { .. }
        | Event::ApprovalElapsed { .. } => approvals::tell(event),
        Event::Ended {
            state,
            result,
            fault,
        } => tell_end(*state, result, fault.as_ref()),
        Event::Broken { step, fault } => {
            let place = step.as_deref().unwrap_or("result");
            format!("{place}: fails with {}: {}", fault.code, fault.message)
        }
        Event::Intended {
            step,
            attempt,
            licence,
            ..
        } => {
            let licence = licence.map_or("", licensed);
            format!("{step}: attempt {attempt} is about to be made{licence}")
        }
        Event::Done {
            step,
            by,
            external_id,
            status,
            ..
        } => tell_done(step, *by, external_id.as_deref(), *status),
        Event::Failed {
            step,
            fault,
            retry_at,
        } => format!(
            "{step}: did not happen ({}): {}{}",
            fault.code,
            fault.message,
            again(*retry_at)
        ),
        Event::ReadFailed {
            step,
            fault,
            retry_at,
        } => format!(
            "{step}: could not be read ({}): {}{}",
            fault.code,
            fault.message,
            again(*retry_at)
        ),
        Event::Doubted { step, doubt, plan } => {
            let (code, message) = (&doubt.code, &doubt.message);
            format!("{step}: in doubt ({code}): {message}; {}", planned(plan))
        }
        Event::Probed { step, seen } => tell_probe(step, seen),
        Event::Begun { .. }
        | Event::Switched { .. }
        | Event::FanOpened { .. }
        | Event::FanLoaded { .. }
        | Event::FanStopped { .. }
        | Event::FanEnded { .. }
        | Event::Started { .. }
        | Event::Undoing { .. } => ways::tell(event),
        Event::Licensed { step, reason } => {
            format!("{step}: a person says that it did not happen: {reason}")
        }
    }
}

fn tell_held(gate: Kind, behind: Option<RunId>, until: Option<Timestamp>) -> String {
    let behind = behind.map_or_else(String::new, |run| format!(", behind {run}"));
    let until = until.map_or_else(String::new, |at| format!(", until {at}"));
    format!("waits at `{gate}`{behind}{until}")
}

/// What a language model read and wrote, and what that cost.
fn used(usage: &Value) -> String {
    let (tokens, cost) = (&usage["tokens"], &usage["cost"]);
    let mut parts = Vec::new();
    if let (Some(input), Some(output)) = (tokens["input"].as_u64(), tokens["output"].as_u64()) {
        parts.push(format!("{input} tokens in, {output} out"));
    }
    if let Some(cost) = cost.as_f64() {
        parts.push(format!("cost {cost:.6}"));
    }
    match parts.is_empty() {
        true => String::new(),
        false => format!(" ({})", parts.join(", ")),
    }
}

fn tell_done(step: &str, by: Witness, external_id: Option<&str>, status: Option<u16>) -> String {
    let status = status.map_or_else(String::new, |status| format!(" with {status}"));
    let id = external_id.map_or_else(String::new, |id| format!(", as {id}"));
    format!("{step}: done{status}{id}, {}", witnessed(by))
}

fn tell_probe(step: &str, seen: &Seen) -> String {
    match seen {
        Seen::Absent => format!("{step}: a probe found nothing"),
        Seen::AbsentSoFar {
            absent_from,
            next_at,
        } => format!(
            "{step}: a probe found nothing; absent is believed from {absent_from}, asked again at {next_at}"
        ),
        Seen::Unclear { fault, retry_at } => {
            let again = again(*retry_at);
            format!("{step}: the probe failed: {}{again}", fault.message)
        }
    }
}

fn tell_end(state: EndState, result: &Value, fault: Option<&Fault>) -> String {
    match state {
        EndState::Succeeded => format!("succeeded with {}", value(result)),
        EndState::Failed => format!("failed{}", why(fault)),
        EndState::Cancelled => format!("cancelled{}", why(fault)),
    }
}

fn why(fault: Option<&Fault>) -> String {
    fault.map_or_else(String::new, |fault| format!(": {}", fault.message))
}

fn again(retry_at: Option<Timestamp>) -> String {
    match retry_at {
        Some(at) => format!("; tried again at {at}"),
        None => "; not tried again".to_owned(),
    }
}

const fn licensed(licence: Licence) -> &'static str {
    match licence {
        Licence::Key => " again: the destination knows the key",
        Licence::Natural => " again: a second time changes nothing",
        Licence::Repeat => " again: the author signed for repeats",
        Licence::Absent => " again: a probe found nothing",
        Licence::Uncommitted => " again: nothing was committed",
        Licence::Marker => " again: the destination's marker tells",
        Licence::Person => " again: a person says that it did not happen",
    }
}

const fn witnessed(by: Witness) -> &'static str {
    match by {
        Witness::Answer => "says the answer",
        Witness::Commit => "says the commit",
        Witness::Probe => "says a probe",
        Witness::Evidence => "says a late answer",
        Witness::Person => "says a person",
    }
}

fn planned(plan: &Plan) -> String {
    match plan {
        Plan::Repeat { at, .. } => format!("repeated at {at}"),
        Plan::Probe {
            at,
            absent_from: Some(from),
        } if from > at => format!("a probe asks at {at}; absent is believed from {from}"),
        Plan::Probe { at, .. } => format!("a probe asks at {at}"),
        Plan::Review => "a person settles it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(event: Value) -> String {
        let start = Timestamp::from_second(0).unwrap();
        let at = Timestamp::from_millisecond(12).unwrap();
        let line = JournalLine {
            seq: 1,
            at,
            events: vec![event],
        };
        lines(&[line], start, Style::PLAIN).join("\n")
    }

    #[test]
    fn each_event_is_one_line_with_its_time() {
        let line = told(json!({"event": "done", "step": "invoice", "by": "answer",
            "external_id": "inv_1", "status": 201, "result": {}}));

        assert_eq!(
            line,
            "    +0.012s  invoice: done with 201, as inv_1, says the answer"
        );
    }

    #[test]
    fn what_a_model_used_and_what_is_kept_elsewhere_are_told() {
        let digest = "ab".repeat(32);
        let line = told(json!({"event": "computed", "step": "ask",
            "result": {"resource": format!("res://{digest}"), "bytes": 70_000, "type": "text/csv"},
            "usage": {"tokens": {"input": 12, "output": 3}, "cost": 0.00042}}));

        assert_eq!(
            line,
            format!(
                "    +0.012s  ask: gave res://{digest} (70000 bytes of text/csv) \
                 (12 tokens in, 3 out, cost 0.000420)"
            )
        );
    }

    #[test]
    fn an_event_of_a_newer_server_is_shown_by_its_name() {
        assert_eq!(
            told(json!({"event": "teleported"})),
            "    +0.012s  teleported"
        );
    }

    #[test]
    fn a_payload_cannot_steer_the_terminal() {
        let line = told(json!({"event": "licensed", "step": "a", "reason": "x\u{1b}[2J\ny"}));

        assert!(line.ends_with("x\\u{1b}[2J\\ny"), "{line}");
    }
}
