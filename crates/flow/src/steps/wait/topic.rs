//! What distinguishes the event that a wait is for: `event.PART == something of the run`.
//!
//! It is found once, when a release is read, so that an event finds the runs that wait for it
//! without asking each of them. Where nothing of that shape is there, each is asked.

use crate::expr::Expr;

/// What an event is asked for, and what the run says it is.
#[derive(Clone, Debug, PartialEq)]
pub struct EventTopic {
    /// The part of the event, such as `order.id`.
    pub path: String,
    /// What stands there in the event that is meant.
    pub value: Expr,
}

/// What expressions of a step may name.
const ROOTS: [&str; 8] = [
    "input", "headers", "query", "trigger", "steps", "waits", "run", "env",
];

impl EventTopic {
    /// What a condition over `event` asks for, where it asks for something by name.
    pub(super) fn of(matching: &Expr) -> Option<Self> {
        matching.terms().into_iter().find_map(|term| {
            let (left, right) = term.split_once("==")?;
            let (left, right) = (left.trim(), right.trim());
            topic(left, right).or_else(|| topic(right, left))
        })
    }
}

fn topic(path: &str, value: &str) -> Option<EventTopic> {
    let path = path.strip_prefix("event.")?;
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if !path.split('.').all(is_name) {
        return None;
    }
    // A text that holds `==` itself is cut in the wrong place, and no expression then.
    let value = Expr::compile(value, &ROOTS).ok()?;
    Some(EventTopic {
        path: path.to_owned(),
        value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<(String, String)> {
        let expr = Expr::compile(text, &["event", "input", "steps"]).unwrap();
        EventTopic::of(&expr).map(|topic| (topic.path, topic.value.to_string()))
    }

    #[test]
    fn an_equation_over_the_event_becomes_its_topic() {
        let found = |path: &str, value: &str| Some((path.to_owned(), value.to_owned()));

        assert_eq!(of("event.id == input.id"), found("id", "input.id"));
        assert_eq!(
            of("input.id == event.order.id"),
            found("order.id", "input.id")
        );
        assert_eq!(of("event.sum > 3 && event.id == 7"), found("id", "7"));
        assert_eq!(of("event.a == event.b"), None);
        assert_eq!(of("event.id > input.id || event.id == input.id"), None);
        assert_eq!(of("\"a==b\" == event.id"), None);
    }
}
