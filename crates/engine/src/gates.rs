//! Gates: which ones a run passes, and how it leaves them.
//!
//! A gate lives in a slot of its own, so nothing about it shares a commit with a run:
//!
//! ```text
//! enter ══▶ the gate has an entry of the run      the run continues, or sleeps until it is woken
//! end   ══▶ the run has ended, with an exit row
//! leave ══▶ its entry is removed, the next run is granted its place
//! wake  ══▶ the next run is due
//! clear ══▶ the exit row is removed
//! ```
//!
//! `══▶` is a commit. A process that crashes between two of them leaves an exit or a wake-up behind
//! that another process finds: each of the steps can be repeated.

use semel_flow::release::{Order, object_of};
use semel_flow::{Flow, Scope};
use semel_model::gate::{GateKind, GatePolicy, GateRules};
use semel_model::{GateId, TriggerKind, Version};

use crate::catalogue::Release;

/// A gate that a run passes.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    pub(crate) kind: GateKind,
    pub(crate) id: GateId,
    pub(crate) rules: GateRules,
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
    GateId::derive(
        &release.namespace,
        &release.flow.name,
        GateKind::Order,
        object,
    )
}

/// The gates of a run, in the order in which it passes them; or why one cannot be computed.
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
            kind: GateKind::Order,
            id: order_gate(release, &object),
            rules: GateRules::one_at_a_time(GatePolicy::Queue),
            version: Some(version),
        });
    }
    let overlap = flow.overlap.as_ref();
    let overlap = overlap.map(|it| (GateKind::Overlap, it.key.as_ref(), it.rules()));
    let limit = flow.limit.as_ref();
    let limit = limit.and_then(|it| Some((GateKind::Limit, it.key.as_ref(), it.rules()?)));
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
