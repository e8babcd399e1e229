//! What a worker prints while it works, on stderr: lines for people, or JSON lines. The totals at
//! its end are its answer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use semel_api::ClientError;
use semel_api::types::ClaimedTask;
use serde_json::{Value, json};

use crate::answer::{Answer, chain};
use crate::output;
use crate::style::{Style, Tone};
use crate::text::{printable, printable_lines};

/// How a task ended, as far as this worker goes.
pub(super) enum End {
    Done,
    Failed(String),
    InDoubt(String),
    /// Another worker has it, or it has ended.
    Left(String),
}

/// Who reads what happens meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Teller {
    /// People.
    Person,
    /// Programs, a JSON line for each event.
    Lines,
    /// No reader: the totals at the end are enough.
    Nobody,
}

/// What was done, and who reads it.
pub(super) struct Report {
    teller: Teller,
    style: Style,
    done: AtomicU64,
    failed: AtomicU64,
    in_doubt: AtomicU64,
    left: AtomicU64,
    /// Whether the outage of the server was reported.
    away: AtomicBool,
}

impl Report {
    pub(super) fn new(teller: Teller) -> Self {
        Self {
            teller,
            style: Style::of_stderr(),
            done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            in_doubt: AtomicU64::new(0),
            left: AtomicU64::new(0),
            away: AtomicBool::new(false),
        }
    }

    pub(super) fn begin(&self, queue: &str, parallel: u16) {
        let text = format!(
            "taking tasks of {}, {parallel} at a time; Ctrl-C finishes running tasks and stops",
            self.style.bold(&printable(queue))
        );
        self.say(
            "started",
            json!({ "queue": queue, "parallel": parallel }),
            &text,
        );
    }

    pub(super) fn claimed(&self, task: &ClaimedTask) {
        self.away.store(false, Ordering::Relaxed);
        let again = match task.attempt {
            1 => String::new(),
            attempt => format!(", attempt {attempt}"),
        };
        let text = format!("{}  started{again}", self.style.dim(&task.task.to_string()));
        let data = json!({ "task": task.task, "run": task.run, "step": task.step,
            "attempt": task.attempt });
        self.say("claimed", data, &text);
    }

    pub(super) fn ended(&self, task: &ClaimedTask, end: End, time: Duration) {
        let (counter, word, tone, why) = match end {
            End::Done => (&self.done, "done", Tone::Good, None),
            End::Failed(why) => (&self.failed, "failed", Tone::Bad, Some(why)),
            End::InDoubt(why) => (&self.in_doubt, "in_doubt", Tone::Odd, Some(why)),
            End::Left(why) => (&self.left, "left", Tone::Odd, Some(why)),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let reason = why.as_deref().map_or_else(String::new, |why| {
            format!(": {}", printable_lines(why.trim()))
        });
        let text = format!(
            "{}  {} in {}{reason}",
            self.style.dim(&task.task.to_string()),
            self.style.toned(tone, &word.replace('_', " ")),
            took(time)
        );
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let data = json!({ "task": task.task, "run": task.run, "ms": millis, "reason": why });
        self.say(word, data, &text);
    }

    pub(super) fn cancelled(&self, task: &ClaimedTask) {
        let text = format!(
            "{}  its run was cancelled; the command runs to its end",
            self.style.dim(&task.task.to_string())
        );
        self.say("cancel", json!({ "task": task.task }), &text);
    }

    pub(super) fn lost(&self, task: &ClaimedTask, error: &ClientError) {
        let text = format!(
            "{}  no longer held by this worker: {}",
            self.style.dim(&task.task.to_string()),
            chain(error)
        );
        let data = json!({ "task": task.task, "code": error.code() });
        self.say("lost", data, &text);
    }

    /// Reported once, until the server answers again.
    pub(super) fn away(&self, error: &ClientError, rest: Duration) {
        if self.away.swap(true, Ordering::Relaxed) {
            return;
        }
        let text = format!(
            "the server does not answer ({}); retrying in {}, until it answers",
            chain(error),
            took(rest)
        );
        self.say("away", json!({ "code": error.code() }), &text);
    }

    pub(super) fn stopping(&self, running: usize) {
        let text = format!("stopping: finishing {running} running tasks, starting no new ones");
        self.say("stopping", json!({ "running": running }), &text);
    }

    pub(super) fn end(&self) -> Answer {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let data = json!({
            "done": count(&self.done),
            "failed": count(&self.failed),
            "in_doubt": count(&self.in_doubt),
            "left": count(&self.left),
        });
        let text = format!(
            "{} done, {} failed, {} in doubt, {} left to others",
            data["done"], data["failed"], data["in_doubt"], data["left"]
        );
        Answer::done(data, text)
    }

    fn say(&self, event: &str, data: Value, text: &str) {
        match self.teller {
            Teller::Person => output::note(text),
            Teller::Lines => output::note(&line(event, data)),
            Teller::Nobody => {}
        }
    }
}

/// How long something took, for people.
fn took(time: Duration) -> String {
    match time.as_millis() {
        millis @ 0..1_000 => format!("{millis} ms"),
        millis => format!("{:.1} s", millis as f64 / 1e3),
    }
}

fn line(event: &str, mut data: Value) -> String {
    data["event"] = Value::from(event);
    data.to_string()
}
