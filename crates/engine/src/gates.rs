//! Gates: which ones a run passes, and telling them that it has ended.
//!
//! A gate lives in a slot of its own, so nothing about it shares a commit with a run:
//!
//! ```text
//! enter ══▶ the gate has a ticket of the run      the run goes on, or sleeps until it is told
//! end   ══▶ the run has ended, and departs
//! leave ══▶ its ticket is gone, the next is called
//! tell  ══▶ the next is due
//! clear ══▶ the departure is forgotten
//! ```
//!
//! `══▶` is a commit. Whoever dies between two of them leaves a departure or a summons behind that
//! another process finds: each of the steps can be taken again.

use semel_flow::release::{Order, object_of};
use semel_flow::{Flow, Scope};
use semel_model::gate::{Kind, Policy, Rules};
use semel_model::{GateId, TriggerKind, Version};

use crate::catalogue::Release;

/// A gate that a run passes.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    pub(crate) kind: Kind,
    pub(crate) id: GateId,
    pub(crate) rules: Rules,
    /// The version of the run's delivery, at the gate of its order.
    pub(crate) version: Option<Version>,
}

/// The order that deliveries of a kind of trigger have.
pub(crate) fn order_of<'a>(flow: &'a Flow, trigger: &str) -> Option<&'a Order> {
    let triggers = &flow.trigger;
    let webhook = triggers.webhook.as_ref();
    let event = triggers.event.as_ref();
    if trigger == TriggerKind::Webhook.as_str() {
        webhook.and_then(|webhook| webhook.order.as_ref())
    } else if trigger == TriggerKind::Event.as_str() {
        event.and_then(|event| event.order.as_ref())
    } else {
        None
    }
}

/// The gate of an object whose deliveries have an order.
pub(crate) fn order_gate(release: &Release, object: &str) -> GateId {
    GateId::derive(&release.namespace, &release.flow.name, Kind::Order, object)
}

/// The gates of a run, in the order in which it passes them. Why one cannot be told, in words.
pub(crate) fn list(
    release: &Release,
    trigger: &str,
    scope: &Scope<'_>,
) -> Result<Vec<Gate>, String> {
    let flow = &release.flow;
    let mut gates = Vec::new();
    if let Some(order) = order_of(flow, trigger) {
        let (object, version) = order.tell(scope)?;
        gates.push(Gate {
            kind: Kind::Order,
            id: order_gate(release, &object),
            rules: Rules::one_at_a_time(Policy::Queue),
            version: Some(version),
        });
    }
    let overlap = flow.overlap.as_ref();
    let overlap = overlap.map(|it| (Kind::Overlap, it.key.as_ref(), it.rules()));
    let limit = flow.limit.as_ref();
    let limit = limit.and_then(|it| Some((Kind::Limit, it.key.as_ref(), it.rules()?)));
    for (kind, key, rules) in overlap.into_iter().chain(limit) {
        let object = object_of(key, scope).map_err(|reason| format!("`{kind}.key`: {reason}"))?;
        gates.push(Gate {
            kind,
            id: GateId::derive(&release.namespace, &flow.name, kind, &object),
            rules,
            version: None,
        });
    }
    Ok(gates)
}
