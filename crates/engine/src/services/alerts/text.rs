//! What a message says: what happened, where, how often, since when, an example, and the command to
//! run next. No payload and no secret: names, counts and times alone.

use semel_model::{AlertGroup, AlertKind};
use semel_store::alerts::{DueGroup, MessageText};

/// The most characters of a name or a note in a message.
const WORDS_CHARS_MAX: usize = 200;

/// The message for a group that is due.
pub(super) fn of(due: &DueGroup) -> MessageText {
    let DueGroup { group, count, .. } = due;
    let what = what(group.kind, *count);
    let place = place(group);
    let mut lines = vec![format!("{what}.")];
    if !place.is_empty() {
        lines.push(format!("Where: {place}"));
    }
    lines.push(format!("How many: {count}"));
    lines.push(format!("Since: {}", due.since));
    let example = due.example.map(|run| run.to_string());
    if let Some(run) = &example {
        lines.push(format!("Example: {run}"));
    }
    lines.push(format!("Next: {}", next(group, example.as_deref())));
    MessageText {
        subject: subject(&what, group),
        body: lines.join("\n"),
    }
}

/// The message that tests where alerts go.
pub(crate) fn test_text() -> MessageText {
    MessageText {
        subject: "[semel] Test: alerts arrive here".to_owned(),
        body: "This is a test. Alerts of this namespace arrive here.\nNext: semel alert list"
            .to_owned(),
    }
}

/// Words from elsewhere, without control characters and not too long.
pub(super) fn plain(words: &str) -> String {
    let shown = words.chars().filter(|c| !c.is_control());
    shown.take(WORDS_CHARS_MAX).collect()
}

fn subject(what: &str, group: &AlertGroup) -> String {
    let places = [&group.flow, &group.step].map(|name| plain(name));
    let places: Vec<String> = places.into_iter().filter(|it| !it.is_empty()).collect();
    match places.is_empty() {
        true => format!("[semel] {what}"),
        false => format!("[semel] {what}: {}", places.join("/")),
    }
}

fn what(kind: AlertKind, count: i64) -> String {
    let (one, many) = match kind {
        AlertKind::Doubt => ("effect is in doubt", "effects are in doubt"),
        AlertKind::NeedsReview => ("run needs review", "runs need review"),
        AlertKind::Quarantined => ("run is quarantined", "runs are quarantined"),
        AlertKind::Held => ("delivery is held", "deliveries are held"),
        AlertKind::Mismatch => (
            "delivery has a known key and another payload",
            "deliveries have a known key and another payload",
        ),
        AlertKind::ApprovalPending => ("approval is pending", "approvals are pending"),
        AlertKind::ApprovalOverdue => ("approval is overdue", "approvals are overdue"),
        AlertKind::Duplicates => (
            "duplicate came in a burst",
            "duplicates came in bursts of a minute",
        ),
        AlertKind::NotProven => (
            "connection change leaves the live release not proven",
            "connection changes leave the live release not proven",
        ),
        AlertKind::EventUnreadable => (
            "event cannot be read and is kept",
            "events cannot be read and are kept",
        ),
        AlertKind::Test => ("test", "tests"),
    };
    match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {many}"),
    }
}

fn place(group: &AlertGroup) -> String {
    let parts = [
        ("flow", &group.flow),
        ("step", &group.step),
        ("connection", &group.connection),
    ];
    let named = parts.iter().filter(|(_, name)| !name.is_empty());
    let named: Vec<String> = named
        .map(|(word, name)| format!("{word} {}", plain(name)))
        .collect();
    named.join(", ")
}

fn next(group: &AlertGroup, example: Option<&str>) -> String {
    let flow = plain(&group.flow);
    match (group.kind, example) {
        (AlertKind::Doubt, _) => "semel doubt list".to_owned(),
        (AlertKind::NeedsReview | AlertKind::Quarantined, Some(run)) => {
            format!("semel run show {run}")
        }
        (AlertKind::NeedsReview | AlertKind::Quarantined, None) => {
            format!("semel run list --flow {flow}")
        }
        (AlertKind::Held, _) => "semel duplicate list --held".to_owned(),
        (AlertKind::Mismatch | AlertKind::Duplicates, _) => "semel duplicate list".to_owned(),
        (AlertKind::ApprovalPending | AlertKind::ApprovalOverdue, _) => {
            "semel approval list".to_owned()
        }
        (AlertKind::NotProven, _) => format!("semel rehearse {flow}"),
        (AlertKind::EventUnreadable, Some(run)) => format!("semel run show {run}"),
        (AlertKind::EventUnreadable, None) => "semel doctor".to_owned(),
        (AlertKind::Test, _) => "semel alert list".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(kind: AlertKind, flow: &str) -> AlertGroup {
        AlertGroup {
            namespace_id: 1,
            kind,
            flow: flow.to_owned(),
            connection: "bank".to_owned(),
            step: "charge".to_owned(),
        }
    }

    #[test]
    fn a_subject_is_one_line_whatever_a_name_holds() {
        let hostile = format!("or\r\nders\u{1b}[2J{}", "x".repeat(1_000));

        let subject = subject("1 run needs review", &group(AlertKind::Doubt, &hostile));

        assert!(!subject.chars().any(char::is_control), "{subject}");
        assert!(subject.chars().count() < 300, "{subject}");
    }

    #[test]
    fn every_kind_names_a_command() {
        for kind in AlertKind::ALL {
            let command = next(&group(kind, "orders"), Some("run_1"));
            assert!(command.starts_with("semel "), "{kind}: {command}");
        }
        for flow in ["orders", ""] {
            let command = next(&group(AlertKind::Doubt, flow), None);
            assert_eq!(
                command, "semel doubt list",
                "no flow, no state: it has neither"
            );
        }
    }
}
