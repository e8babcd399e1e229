//! The inventory: each effect of a flow, its key, its guard, and what a crash does to it.

use semel_model::{Guard, Span};
use serde::Serialize;

use crate::check::Allowed;
use crate::effect::{self, Does, Facts};
use crate::provider::{self, Provider};
use crate::tree::{Outline, Record, StepIndex};

/// How long most destinations remember a key.
const WINDOW: Span = Span::from_const_secs(24 * 3_600);

/// What a flow does to the outside world.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Inventory {
    /// The ways in which runs start.
    pub starts: Vec<Start>,
    /// The effects, in the order of the steps.
    pub effects: Vec<Effect>,
    /// The rules that the author disagreed with.
    pub allowed: Vec<Allowed>,
}

/// One way in which runs start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Start {
    /// `webhook`, `schedule`, …
    pub trigger: &'static str,
    /// What two deliveries of one intent have in common.
    pub key: String,
    /// How a delivery proves where it comes from.
    pub proof: Proof,
}

/// How a delivery proves where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// Not at all: whoever knows the address may deliver.
    Nothing,
    /// By a signature over what is sent.
    Signature,
    /// By a shared secret that is sent along.
    Token,
    /// By a caller who signed in.
    SignIn,
    /// It comes from inside: a time that came, or an event that a flow of the namespace emitted.
    Inside,
}

impl Proof {
    /// The words for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "nothing: open to whoever knows the address",
            Self::Signature => "a signature",
            Self::Token => "a token",
            Self::SignIn => "sign-in",
            Self::Inside => "coming from inside",
        }
    }
}

/// One effect of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Effect {
    /// The step.
    pub step: String,
    /// What the step does: `http`, `db`, …
    pub action: &'static str,
    /// What kind of change it is.
    pub kind: Does,
    /// Its key: `derived` from run, step and item, or the author's expression.
    pub key: String,
    /// How far the key holds.
    pub scope: String,
    /// How it is made safe.
    pub guard: Guard,
    /// What a crash or a lost answer leads to.
    pub after_crash: String,
    /// Whether performing it again can do no harm.
    pub retry_safe: bool,
    /// What a person has to do, where there is something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_to_person: Option<String>,
    /// How it is taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<String>,
}

pub(crate) fn of(outline: &Outline<'_>, facts: &Facts, allowed: Vec<Allowed>) -> Inventory {
    let effects = (0..outline.steps.len()).filter_map(|index| effect(outline, facts, index));
    Inventory {
        starts: starts(outline.flow),
        effects: effects.collect(),
        allowed,
    }
}

fn starts(flow: &Record) -> Vec<Start> {
    let Some(trigger) = flow.map("trigger") else {
        return vec![];
    };
    let starts = trigger.fields.iter().filter_map(|entry| {
        let start = trigger.map(entry.name)?;
        let own = start.expr("key").map(|key| key.expr.to_string());
        let provided = start.text("provider").and_then(provider::find);
        let implied = match entry.name {
            "schedule" => "the nominal time",
            "event" => "the event's delivery key",
            _ => "named by the caller",
        };
        let implied = provided.map_or(implied, |provider| provider.key);
        Some(Start {
            trigger: entry.name,
            key: own.unwrap_or_else(|| implied.to_owned()),
            proof: proof(entry.name, start, provided),
        })
    });
    starts.collect()
}

fn proof(trigger: &str, start: &Record, provided: Option<&Provider>) -> Proof {
    match trigger {
        "webhook" => {}
        "schedule" | "event" => return Proof::Inside,
        _ => return Proof::SignIn,
    }
    let signs = provided.is_some_and(|provider| provider.signature.is_some());
    match start.map("auth") {
        Some(auth) if auth.has("token") => Proof::Token,
        Some(_) => Proof::Signature,
        None if signs && !start.has("auth") => Proof::Signature,
        None => Proof::Nothing,
    }
}

fn effect(outline: &Outline<'_>, facts: &Facts, index: StepIndex) -> Option<Effect> {
    let step = &outline.steps[index];
    let found = effect::Effect::of(step, facts)?;
    let key = step.record.expr("key");
    let looped = outline
        .around(index)
        .any(|(holder, _)| outline.steps[holder].action == Some("foreach"));
    let derived = if looped {
        "derived, by item"
    } else {
        "derived"
    };
    let scope = key.and_then(|_| step.record.word("scope"));
    Some(Effect {
        step: step.id.to_owned(),
        action: step.action?,
        kind: found.does,
        key: key.map_or_else(|| derived.to_owned(), |key| key.expr.to_string()),
        scope: scope.unwrap_or("step").to_owned(),
        guard: found.guard,
        after_crash: after_crash(outline, facts, index, found.guard),
        retry_safe: match found.guard {
            Guard::Transaction | Guard::Key | Guard::Natural | Guard::Probe => true,
            Guard::Review | Guard::Repeat => false,
        },
        left_to_person: left_to_person(found.guard).map(str::to_owned),
        undo: undo(outline, index),
    })
}

fn after_crash(outline: &Outline<'_>, facts: &Facts, index: StepIndex, guard: Guard) -> String {
    let record = outline.steps[index].record;
    match guard {
        Guard::Transaction => {
            "the marker tells: it committed with the effect, or not at all".into()
        }
        Guard::Key => {
            let window = key_window(outline, facts, index);
            format!("sent again with the same key for {window}, then a person settles it")
        }
        Guard::Natural => "repeated: a second time changes nothing".into(),
        Guard::Probe => "a read tells: found is done, absent is performed".into(),
        Guard::Review => "in doubt: a person settles it".into(),
        Guard::Repeat => {
            let because = record.text("because").unwrap_or_default().trim();
            format!("repeated, and may happen twice: {because}")
        }
    }
}

/// How long the destination of a step remembers its key.
pub(crate) fn key_window(outline: &Outline<'_>, facts: &Facts, index: StepIndex) -> Span {
    let known = effect::connection(outline.body(index), facts).and_then(|known| known.honours_keys);
    let said = outline.steps[index].record.span_of("window");
    said.or(known).unwrap_or(WINDOW)
}

const fn left_to_person(guard: Guard) -> Option<&'static str> {
    match guard {
        Guard::Transaction | Guard::Natural | Guard::Probe | Guard::Repeat => None,
        Guard::Key => Some("a lost answer that is older than the key's window"),
        Guard::Review => Some("every lost answer: did it happen?"),
    }
}

fn undo(outline: &Outline<'_>, index: StepIndex) -> Option<String> {
    let undo = outline.steps[index].record.map("undo")?;
    undo.fields.first().map(|entry| entry.name.to_owned())
}
