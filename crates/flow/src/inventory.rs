//! The inventory: each effect of a flow, its key, its guard, and what a crash does to it.

use semel_model::{Guard, TriggerKind};
use serde::Serialize;

use crate::context::{CheckContext, KnownConnection};
use crate::diagnostic::{Code, Diagnostic};
use crate::effect::{Effect, connection, key_window};
use crate::outline::{Outline, StepIndex};
use crate::steps::{ActionKind, EffectKind, Holds};
use crate::tree::Record;
use crate::triggers::{self, Proof};

/// What a flow does to the outside world.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Inventory {
    /// The ways in which runs start.
    pub starts: Vec<InventoryStart>,
    /// The effects, in the order of the steps.
    pub effects: Vec<InventoryEffect>,
    /// The rules that the author disagreed with.
    pub allowed: Vec<Allowed>,
}

/// A rule that an author disagreed with, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Allowed {
    /// The rule.
    pub code: Code,
    /// The step, where the author disagreed for one step only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The author's reason.
    pub because: String,
    /// What the rule had to say, with its place.
    pub said: Diagnostic,
}

/// One way in which runs start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InventoryStart {
    /// What starts them.
    pub trigger: TriggerKind,
    /// What two deliveries of one intent have in common.
    pub key: String,
    /// How a delivery proves where it comes from.
    pub proof: Proof,
    /// Paths that the flow reads and the signature does not cover: an attacker who captured a delivery can
    /// change their values. Empty without a signature.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsigned: Vec<String>,
}

/// One effect of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InventoryEffect {
    /// The step.
    pub step: String,
    /// The kind of step.
    pub action: ActionKind,
    /// What kind of change it is.
    pub kind: EffectKind,
    /// Its key: `derived` from run, step and item, or the author's expression.
    pub key: String,
    /// Where the key counts: `run`, or where an author's key does.
    pub scope: String,
    /// How it is made safe.
    pub guard: Guard,
    /// What a crash or a lost answer leads to.
    pub after_crash: String,
    /// Whether performing it again can do no harm.
    pub retry_safe: bool,
    /// What an operator has to do, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_to_person: Option<String>,
    /// How it is taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<String>,
    /// Whether the destination is asked before the first attempt.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub looks_first: bool,
    /// What would make it safer, where the check knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

pub(crate) fn of(
    outline: &Outline<'_>,
    context: &CheckContext,
    allowed: Vec<Allowed>,
) -> Inventory {
    let effects = (0..outline.steps.len()).filter_map(|index| effect(outline, context, index));
    Inventory {
        starts: starts(outline),
        effects: effects.collect(),
        allowed,
    }
}

fn starts(outline: &Outline<'_>) -> Vec<InventoryStart> {
    let flow = outline.flow;
    let declared = flow.map("trigger").into_iter().flat_map(triggers::declared);
    let starts = declared.map(|(spec, start)| InventoryStart {
        trigger: spec.kind,
        key: match start.expr("key") {
            Some(key) => key.expr.to_string(),
            None => (spec.implied_key)(start).to_owned(),
        },
        proof: (spec.proof)(start),
        unsigned: match spec.kind {
            TriggerKind::Webhook => triggers::unsigned(start, outline),
            TriggerKind::Schedule
            | TriggerKind::Manual
            | TriggerKind::Api
            | TriggerKind::Event
            | TriggerKind::Reconcile
            | TriggerKind::Call => vec![],
        },
    });
    let reconcile = flow.map("reconcile").map(|reconcile| InventoryStart {
        trigger: TriggerKind::Reconcile,
        key: reconcile
            .expr("key")
            .map_or_else(String::new, |key| key.expr.to_string()),
        proof: Proof::Inside,
        unsigned: vec![],
    });
    starts.chain(reconcile).collect()
}

fn effect(
    outline: &Outline<'_>,
    context: &CheckContext,
    index: StepIndex,
) -> Option<InventoryEffect> {
    let step = &outline.steps[index];
    let found = Effect::of(step, context)?;
    let key = step.record.expr("key");
    let looped = outline
        .around(index)
        .any(|(holder, _)| outline.steps[holder].holds() == Some(Holds::Items));
    let derived = if looped {
        "derived, by item"
    } else {
        "derived"
    };
    let scope = key.and_then(|_| step.record.word("scope"));
    Some(InventoryEffect {
        step: step.id.to_owned(),
        action: step.kind?.kind,
        kind: found.kind,
        key: key.map_or_else(|| derived.to_owned(), |key| key.expr.to_string()),
        scope: scope.unwrap_or("run").to_owned(),
        guard: found.guard,
        after_crash: after_crash(outline, context, index, found),
        retry_safe: match found.guard {
            Guard::Transaction | Guard::Key | Guard::Natural | Guard::Probe => true,
            Guard::Review | Guard::Repeat => false,
        },
        left_to_person: left_to_person(found.guard).map(str::to_owned),
        undo: undo(outline, index),
        looks_first: looks_first(step.record),
        advice: advice(outline, context, index, found),
    })
}

fn after_crash(
    outline: &Outline<'_>,
    context: &CheckContext,
    index: StepIndex,
    found: Effect,
) -> String {
    let record = outline.steps[index].record;
    match found.guard {
        Guard::Transaction => {
            "the marker decides: it committed with the effect, or not at all".into()
        }
        Guard::Key => {
            let window = key_window(outline, context, index);
            format!("sent again with the same key for {window}, then an operator settles it")
        }
        Guard::Natural if found.stated => "repeated: a second time changes nothing".into(),
        Guard::Natural => {
            "repeated: PUT and DELETE count as harmless to repeat; if this address adds or takes one, say `guard: review`"
                .into()
        }
        Guard::Probe if looks_first(record) => {
            "looks first, and again: found is done, absent is performed".into()
        }
        Guard::Probe => "a read decides: found is done, absent is performed".into(),
        Guard::Review => "in doubt: an operator settles it".into(),
        Guard::Repeat => {
            let because = record.text("because").unwrap_or_default().trim();
            format!("repeated, and may happen twice: {because}")
        }
    }
}

/// Whether a step asks before its first attempt.
fn looks_first(record: &Record) -> bool {
    let probe = record.map("probe");
    probe.and_then(|probe| probe.truth("before")) == Some(true)
}

/// What would make an effect safer, or what the check would have to know to say so.
fn advice(
    outline: &Outline<'_>,
    context: &CheckContext,
    index: StepIndex,
    effect: Effect,
) -> Option<String> {
    let name = outline.body(index)?.text("connection")?;
    match connection(outline.body(index), context) {
        Some(known) => look_first(outline.steps[index].record, known, effect),
        None => ask_about(name, effect),
    }
}

/// Where the connection is not known, its guard may be better than the one that is listed.
fn ask_about(connection: &str, effect: Effect) -> Option<String> {
    let guessed = effect.guard == Guard::Review && !effect.stated;
    guessed.then(|| {
        format!(
            "the connection `{connection}` is not known here: if it honours idempotency keys, the \
             guard is `key`"
        )
    })
}

/// A destination that honours no key cannot tell what another system created from what this flow
/// does: only a look before the first attempt can.
fn look_first(record: &Record, known: KnownConnection, effect: Effect) -> Option<String> {
    let blind = effect.guard == Guard::Probe && record.has("probe") && !looks_first(record);
    let creates = effect.kind == EffectKind::Create && known.key_window.is_none();
    (blind && creates).then(|| {
        "the destination honours no key: add `before: true` to the probe if anything else may \
         create the same thing"
            .to_owned()
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_repeated_by_its_verb_alone_says_so() {
        let after_crash = |step: &str| {
            let source = format!(
                "flow: a\ntrigger: {{ manual: {{ key: input.id }} }}\nsteps:\n  - {{ id: act, {step} }}\n"
            );
            let examined = crate::examine("a.flow.yaml", &source, &CheckContext::default());
            examined.inventory.effects[0].after_crash.clone()
        };

        let added = after_crash("http: { put: 'https://x.example/balance/1/add' }");
        let next = after_crash("http: { delete: 'https://x.example/queue/next' }");
        let said = after_crash("guard: natural, http: { put: 'https://x.example/balance/1' }");

        assert!(added.contains("say `guard: review`"), "{added}");
        assert_eq!(next, added);
        assert_eq!(said, "repeated: a second time changes nothing");
    }
}
