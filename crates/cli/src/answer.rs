//! Answers: what every command comes back with, for people and for programs.
//!
//! A command fills in both sides: `text` is what people read on stdout, `data` is what programs
//! read. Everything else (notes, what went wrong, what to do next) goes to stderr for people, and
//! into the same single object for programs.

use serde::Serialize;
use serde_json::Value;

use crate::code;
use crate::outcome::Outcome;

/// The name of the object's form; it changes when a program could stumble over a change.
const SCHEMA: &str = "semel/1";

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    pub(crate) data: Value,
    /// What people read on stdout.
    pub(crate) text: String,
    /// What people read on stderr.
    pub(crate) notes: Vec<String>,
    pub(crate) next: Vec<Next>,
    pub(crate) fault: Option<Fault>,
    /// Whether the data is on stdout already.
    pub(crate) shown: bool,
    /// What the process exits with, where that is not the outcome's code.
    pub(crate) exit_code: Option<u8>,
}

/// What went wrong, as a command hands it up.
#[derive(Debug)]
pub(crate) struct Problem(Box<Answer>);

/// What went wrong.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Fault {
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// In how many seconds a retry makes sense, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after: Option<u64>,
}

/// A command that makes sense now.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Next {
    pub(crate) command: String,
    pub(crate) safe_to_repeat: bool,
}

/// The one object that programs get.
#[derive(Serialize)]
struct Envelope<'a> {
    schema: &'static str,
    ok: bool,
    outcome: Outcome,
    data: &'a Value,
    error: Option<&'a Fault>,
    next: &'a [Next],
}

impl Answer {
    /// An answer of a command that did what it was asked for.
    pub(crate) fn done(data: impl Serialize, text: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Done,
            // Everything that is shown came out of JSON or goes into it without maps of odd keys.
            data: serde_json::to_value(data).unwrap_or_default(),
            text: text.into(),
            notes: Vec::new(),
            next: Vec::new(),
            fault: None,
            shown: false,
            exit_code: None,
        }
    }

    /// The same answer, whose data the command wrote itself.
    pub(crate) fn shown(mut self) -> Self {
        self.shown = true;
        self
    }

    /// Says something to people beside the data.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Names a command that makes sense now. All that we name are safe to repeat, and none is a
    /// decision: a program that follows them must not decide what only a person can know.
    pub(crate) fn next(mut self, command: impl Into<String>) -> Self {
        let command = command.into();
        if is_decision(&command) {
            return self.decision("to decide", command);
        }
        self.next.push(Next {
            command,
            safe_to_repeat: true,
        });
        self
    }

    /// Shows people the command that records a decision of theirs. Programs do not get it.
    pub(crate) fn decision(self, about: &str, command: impl Into<String>) -> Self {
        let command = command.into();
        self.note(format!("{about}: {command}"))
    }

    /// The same answer with another outcome.
    pub(crate) fn with_outcome(mut self, outcome: Outcome) -> Self {
        self.outcome = outcome;
        self
    }

    /// The same answer, which is a failure all the same.
    pub(crate) fn with_fault(mut self, outcome: Outcome, code: &str, message: &str) -> Self {
        self.fault = Some(Fault {
            code: code.to_owned(),
            message: message.to_owned(),
            hint: None,
            retry_after: None,
        });
        self.with_outcome(outcome)
    }

    /// The one object that programs get, on one line.
    pub(crate) fn envelope(&self) -> String {
        let envelope = Envelope {
            schema: SCHEMA,
            ok: self.outcome == Outcome::Done,
            outcome: self.outcome,
            data: &self.data,
            error: self.fault.as_ref(),
            next: &self.next,
        };
        serde_json::to_string(&envelope).unwrap_or_default()
    }
}

/// What begins the commands by which a person decides something.
const DECISIONS: &[&str] = &[
    "semel approval approve",
    "semel approval reject",
    "semel connection pause",
    "semel connection resume",
    "semel doubt settle",
    "semel duplicate accept",
    "semel duplicate dismiss",
    "semel effect amend",
    "semel flow pause",
    "semel flow resume",
    "semel key drop",
    "semel once free",
    "semel once redo",
    "semel once settle",
    "semel replay apply",
    "semel replay pause",
    "semel replay stop",
    "semel run cancel",
    "semel run replay",
    "semel run resume",
    "semel schedule fire",
    "semel schedule pause",
    "semel schedule resume",
    "semel wait complete",
];

/// Whether a command is a decision.
fn is_decision(command: &str) -> bool {
    DECISIONS.iter().any(|begin| command.starts_with(begin))
}

impl Problem {
    /// A problem with a stable code and a message for people.
    pub(crate) fn new(outcome: Outcome, code: &str, message: impl Into<String>) -> Self {
        let answer = Answer::done(Value::Null, String::new());
        Self(Box::new(answer.with_fault(outcome, code, &message.into())))
    }

    /// The command line cannot be followed.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Outcome::Usage, code::USAGE, message)
    }

    /// Something on this machine did not work out.
    pub(crate) fn local(message: impl Into<String>) -> Self {
        Self::new(Outcome::Failed, code::LOCAL, message)
    }

    /// Says what to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        if let Some(fault) = &mut self.0.fault {
            fault.hint = Some(hint.into());
        }
        self
    }

    /// Says when a retry makes sense, in whole seconds.
    pub(crate) fn retry_after(mut self, span: semel_model::Span) -> Self {
        if let Some(fault) = &mut self.0.fault {
            fault.retry_after = Some(span.as_millis().div_ceil(1_000).max(1));
        }
        self
    }

    /// Names a command that makes sense now.
    pub(crate) fn next(mut self, command: impl Into<String>) -> Self {
        self.0 = Box::new(self.0.next(command));
        self
    }

    /// Exits with the code of a command that was run, instead of the outcome's.
    pub(crate) fn exit_with(mut self, code: u8) -> Self {
        self.0.exit_code = Some(code);
        self
    }

    /// The problem as an answer like any other.
    pub(crate) fn into_answer(self) -> Answer {
        *self.0
    }

    /// The message, for a place that shows it among others.
    pub(crate) fn message(&self) -> &str {
        self.0.fault.as_ref().map_or("", |fault| &fault.message)
    }

    /// Hint of the fault; none if it has none.
    pub(crate) fn advice(&self) -> Option<&str> {
        self.0.fault.as_ref()?.hint.as_deref()
    }
}

/// An error and its causes on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_program_reads_one_object_with_every_field() {
        let answer = Answer::done(json!({"run": "run_1"}), "run_1").next("semel run show run_1");

        let read: Value = serde_json::from_str(&answer.envelope()).unwrap();

        let expected = json!({
            "schema": "semel/1", "ok": true, "outcome": "done", "data": {"run": "run_1"},
            "error": null,
            "next": [{"command": "semel run show run_1", "safe_to_repeat": true}],
        });
        assert_eq!(read, expected);
    }

    #[test]
    fn what_comes_next_is_never_a_decision() {
        for decision in DECISIONS {
            let answer = Answer::done(Value::Null, "").next(format!("{decision} eff_1 --happened"));

            assert!(answer.next.is_empty(), "{decision}");
            assert!(answer.notes[0].contains(decision), "people see the line");
        }
    }

    #[test]
    fn a_problem_is_part_of_the_same_object() {
        let problem = Problem::new(Outcome::NotFound, "unknown-flow", "no flow is called x");

        let answer = problem.hint("semel flow list").into_answer();
        let read: Value = serde_json::from_str(&answer.envelope()).unwrap();

        assert_eq!(read["ok"], false);
        assert_eq!(read["outcome"], "not_found");
        assert_eq!(read["data"], Value::Null);
        let expected = json!({
            "code": "unknown-flow", "message": "no flow is called x", "hint": "semel flow list",
        });
        assert_eq!(read["error"], expected);
    }
}
