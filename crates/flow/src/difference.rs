//! What one release means that another does not: effects, keys, guards, retries, approvals. How a file
//! is spelled makes no difference.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::check::Examined;
use crate::inventory::{Inventory, InventoryEffect, InventoryStart};
use crate::release::{Flow, Step};
use crate::steps::{Action, ActionKind};

/// The most characters of a value that is shown.
const SHOWN_CHARS: usize = 80;

/// How much of that stands before the place where two texts part.
const SHOWN_BEFORE: usize = 24;

/// What differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    /// Runs start in another way.
    Trigger,
    /// What two deliveries of one intent have in common.
    TriggerKey,
    /// How long keys are kept, and what an expired key means.
    Keep,
    /// Order, concurrency or rate of runs.
    Limit,
    /// An effect that there was not.
    EffectAdded,
    /// An effect that there is no longer.
    EffectGone,
    /// How an effect is made safe.
    Guard,
    /// The key of an effect, or where it counts.
    Key,
    /// How often a failed attempt is made again.
    Retry,
    /// What is sent, and where to.
    Request,
    /// Under which condition a step is performed.
    Condition,
    /// How an effect is undone.
    Undo,
    /// What people are asked.
    Approval,
    /// A step without an effect.
    Step,
    /// The order of the effects.
    Order,
    /// What a run yields, and the shape of its input.
    Data,
}

/// One thing that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What differs.
    pub kind: DifferenceKind,
    /// The step, where it is one's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// What it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// What it is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// What follows for deliveries, runs and effects of before, where something does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub means: Option<&'static str>,
}

/// A repeat of an earlier delivery is not recognised.
const REPEAT_IS_NEW: &str = "a repeat across this change is a new run";

/// A replay finds no record of the effect.
const PERFORMED_AGAIN: &str =
    "an effect is known by its step: a replay across this change performs it again";

/// Another business key.
const OTHER_NAME: &str =
    "what was done under the old key is not known under the new one, and is performed again";

/// Other keys of items.
const OTHER_ITEMS: &str =
    "an item is known by its key: a replay across this change performs the items again";

/// Compares what two files mean. Each must have been checked without an error.
#[must_use]
pub fn compare(old: &Examined, new: &Examined) -> Vec<Difference> {
    let (Some(before), Some(after)) = (&old.flow, &new.flow) else {
        return Vec::new();
    };
    let mut found = starts(&old.inventory, &new.inventory);
    found.extend(whole(before, after));
    found.extend(effects(&old.inventory, &new.inventory));
    found.extend(steps(before, after, &old.inventory, &new.inventory));
    found.sort_by_key(|it| it.kind);
    found
}

fn differs(
    kind: DifferenceKind,
    step: Option<&str>,
    (before, after): (Option<String>, Option<String>),
    means: Option<&'static str>,
) -> Option<Difference> {
    (before != after).then(|| {
        let (before, after) = around_difference(before, after);
        Difference {
            kind,
            step: step.map(str::to_owned),
            before,
            after,
            means,
        }
    })
}

/// Two texts that differ. What is longer than a line is shown from shortly before the place where
/// they part.
fn around_difference(
    before: Option<String>,
    after: Option<String>,
) -> (Option<String>, Option<String>) {
    let alike = match (&before, &after) {
        (Some(before), Some(after)) => {
            let pairs = before.chars().zip(after.chars());
            pairs.take_while(|(old, new)| old == new).count()
        }
        _ => 0,
    };
    let cut = |text: String| {
        if text.chars().count() <= SHOWN_CHARS {
            return text;
        }
        let left_out = alike.saturating_sub(SHOWN_BEFORE);
        let dots = |has_more: bool| if has_more { "…" } else { "" };
        let has_more = text.chars().count() > left_out + SHOWN_CHARS;
        let shown: String = text.chars().skip(left_out).take(SHOWN_CHARS).collect();
        format!("{}{shown}{}", dots(left_out > 0), dots(has_more))
    };
    (before.map(cut), after.map(cut))
}

fn starts(old: &Inventory, new: &Inventory) -> Vec<Difference> {
    let by_trigger = |inventory: &Inventory| -> BTreeMap<String, InventoryStart> {
        let starts = inventory.starts.iter().cloned();
        starts
            .map(|start| (start.trigger.as_str().to_owned(), start))
            .collect()
    };
    let (old, new) = (by_trigger(old), by_trigger(new));
    let mut found = Vec::new();
    for (trigger, start) in &old {
        let Some(now) = new.get(trigger) else {
            let gone = (Some(trigger.clone()), None);
            found.extend(differs(DifferenceKind::Trigger, None, gone, None));
            continue;
        };
        let keys = (Some(start.key.clone()), Some(now.key.clone()));
        let means = Some(REPEAT_IS_NEW);
        found.extend(differs(DifferenceKind::TriggerKey, None, keys, means));
        let proof = |start: &InventoryStart| Some(format!("{trigger}: {}", start.proof.as_str()));
        let proofs = (proof(start), proof(now));
        found.extend(differs(DifferenceKind::Trigger, None, proofs, None));
    }
    let added = new.keys().filter(|trigger| !old.contains_key(*trigger));
    found.extend(added.filter_map(|trigger| {
        let added = (None, Some(trigger.clone()));
        differs(DifferenceKind::Trigger, None, added, None)
    }));
    found
}

/// What holds for the flow as a whole.
fn whole(old: &Flow, new: &Flow) -> Vec<Difference> {
    let keep = |flow: &Flow| {
        let then = match flow.expires_as_new {
            true => ", then a new intent",
            false => "",
        };
        let history = flow.history.map(|it| format!("; runs for {it}"));
        Some(format!(
            "{}{then}{}",
            flow.keep,
            history.unwrap_or_default()
        ))
    };
    let limits = |flow: &Flow| shown(&(&flow.overlap, &flow.limit));
    let data = |flow: &Flow| shown(&(&flow.input_schema, &flow.result, &flow.env));
    let (was, now) = (order_of_effects(old), order_of_effects(new));
    let kept = |ids: &[&str], others: &[&str]| -> String {
        let both = ids.iter().filter(|id| others.contains(id));
        both.copied().collect::<Vec<_>>().join(", ")
    };
    let orders = (Some(kept(&was, &now)), Some(kept(&now, &was)));
    [
        differs(DifferenceKind::Keep, None, (keep(old), keep(new)), None),
        differs(
            DifferenceKind::Limit,
            None,
            (limits(old), limits(new)),
            None,
        ),
        differs(DifferenceKind::Data, None, (data(old), data(new)), None),
        differs(DifferenceKind::Order, None, orders, None),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn order_of_effects(flow: &Flow) -> Vec<&str> {
    let effects = flow.steps.iter().filter(|step| step.guard().is_some());
    effects.map(|step| step.id.as_str()).collect()
}

fn effects(old: &Inventory, new: &Inventory) -> Vec<Difference> {
    let find = |inventory: &Inventory, step: &str| -> Option<InventoryEffect> {
        let found = inventory.effects.iter().find(|effect| effect.step == step);
        found.cloned()
    };
    let what = |effect: &InventoryEffect| {
        let (kind, action) = (effect.kind.as_str(), effect.action.as_str());
        Some(format!("{action} ({kind}), guard {}", effect.guard))
    };
    let mut found = Vec::new();
    for effect in &old.effects {
        let step = Some(effect.step.as_str());
        let Some(now) = find(new, &effect.step) else {
            let gone = (what(effect), None);
            found.extend(differs(DifferenceKind::EffectGone, step, gone, None));
            continue;
        };
        let guards = (Some(effect.guard.to_string()), Some(now.guard.to_string()));
        found.extend(differs(DifferenceKind::Guard, step, guards, None));
        let key = |effect: &InventoryEffect| match effect.scope.as_str() {
            "run" => Some("of the run".to_owned()),
            scope => Some(format!("{} in the {scope}", effect.key)),
        };
        let keys = (key(effect), key(&now));
        found.extend(differs(DifferenceKind::Key, step, keys, Some(OTHER_NAME)));
        let undos = (effect.undo.clone(), now.undo.clone());
        found.extend(differs(DifferenceKind::Undo, step, undos, None));
    }
    let added = new
        .effects
        .iter()
        .filter(|effect| find(old, &effect.step).is_none());
    found.extend(added.filter_map(|effect| {
        let step = Some(effect.step.as_str());
        let added = (None, what(effect));
        differs(
            DifferenceKind::EffectAdded,
            step,
            added,
            Some(PERFORMED_AGAIN),
        )
    }));
    found
}

/// What each step does, beyond what the inventory says.
fn steps(old: &Flow, new: &Flow, was: &Inventory, is: &Inventory) -> Vec<Difference> {
    let is_effect = |step: &Step| {
        let named = |inventory: &Inventory| {
            let mut effects = inventory.effects.iter();
            effects.any(|effect| effect.step == step.id.as_str())
        };
        named(was) || named(is)
    };
    let mut found = Vec::new();
    for step in &old.steps {
        let id = Some(step.id.as_str());
        match new.find_step(step.id.as_str()) {
            Some(now) => found.extend(step_differs(step, now)),
            None if is_effect(step) => {}
            None => found.extend(differs(kind_of(step), id, (action(step), None), None)),
        }
    }
    let added = new.steps.iter();
    let added = added.filter(|step| old.find_step(step.id.as_str()).is_none());
    found.extend(added.filter(|step| !is_effect(step)).filter_map(|step| {
        let id = Some(step.id.as_str());
        differs(kind_of(step), id, (None, action(step)), None)
    }));
    found
}

fn step_differs(old: &Step, new: &Step) -> Vec<Difference> {
    let id = Some(old.id.as_str());
    let conditions = (
        old.condition.as_ref().map(ToString::to_string),
        new.condition.as_ref().map(ToString::to_string),
    );
    let retries = (shown(&old.retry), shown(&new.retry));
    let sent = (action(old), action(new));
    let kind = match old.guard() {
        Some(_) => DifferenceKind::Request,
        None => kind_of(old),
    };
    let items = (item_key(old), item_key(new));
    [
        differs(DifferenceKind::Key, id, items, Some(OTHER_ITEMS)),
        differs(DifferenceKind::Condition, id, conditions, None),
        differs(DifferenceKind::Retry, id, retries, None),
        differs(kind, id, sent, None),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What identifies an item of a list, where the step goes through one.
fn item_key(step: &Step) -> Option<String> {
    let Action::Foreach(list) = &step.action else {
        return None;
    };
    match &list.key {
        Some(key) => Some(key.to_string()),
        None => Some("its place".to_owned()),
    }
}

fn kind_of(step: &Step) -> DifferenceKind {
    match step.kind() == ActionKind::Approval {
        true => DifferenceKind::Approval,
        false => DifferenceKind::Step,
    }
}

/// What a step does, without what is compared by itself.
fn action(step: &Step) -> Option<String> {
    const ELSEWHERE: [&str; 8] = [
        "id", "if", "guard", "retry", "follow", "undo", "named", "steps",
    ];
    let written = serde_json::to_value(step).ok()?;
    let Value::Object(fields) = written else {
        return None;
    };
    let kept = fields.into_iter();
    let mut kept: Map<String, Value> = kept
        .filter(|(name, _)| !ELSEWHERE.contains(&name.as_str()))
        .collect();
    if step.kind().descriptor().effect.is_none() {
        kept.values_mut().for_each(drop_places);
    }
    shown(&kept)
}

/// Leaves out where the parts of a step stand in the flow: a step before them moves them, and means
/// nothing for them.
fn drop_places(value: &mut Value) {
    const PLACES: [&str; 4] = ["first", "branches", "to", "otherwise"];
    match value {
        Value::Object(fields) => {
            let is_place = |value: &Value| match value {
                Value::Number(_) => true,
                Value::Array(items) => items.iter().all(|item| item.is_number() || item.is_null()),
                Value::Null | Value::Bool(_) | Value::String(_) | Value::Object(_) => false,
            };
            fields.retain(|name, value| !PLACES.contains(&name.as_str()) || !is_place(value));
            fields.values_mut().for_each(drop_places);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_places),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A value as JSON.
fn shown(value: &impl Serialize) -> Option<String> {
    serde_json_canonicalizer::to_string(value).ok()
}

#[cfg(test)]
mod tests;
