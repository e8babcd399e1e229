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

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use semel_flow::release::{Order, object_of};
use semel_flow::{Flow, Scope};
use semel_model::gate::{Kind, Policy, Rules, Visit};
use semel_model::{GateId, TriggerKind, Version};
use semel_steps::fault;
use semel_store::gate_exits::{self, Departure};
use semel_store::gates::{self, Call, Visiting};
use semel_store::writer::Writer;
use semel_store::{Cell, ReadError, queue};

use crate::catalogue::Release;
use crate::engine::Inner;

/// How often departures are cleared, and looked for where another process left them behind.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A gate that a run passes.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    pub(crate) kind: Kind,
    pub(crate) id: GateId,
    pub(crate) rules: Rules,
    /// The version of the run's delivery, at the gate of its order.
    pub(crate) version: Option<Version>,
}

/// Whether the runs of a flow pass gates.
pub(crate) fn has_gates(flow: &Flow) -> bool {
    let triggers = &flow.trigger;
    let orders = triggers.webhook.as_ref().and_then(|it| it.order.as_ref());
    let orders = orders.or_else(|| triggers.event.as_ref().and_then(|it| it.order.as_ref()));
    let limits = flow.limit.as_ref().and_then(|limit| limit.rules());
    flow.overlap.is_some() || limits.is_some() || orders.is_some()
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

/// A process's way to the gates.
pub(crate) struct Gatekeeper {
    pub(crate) visiting: Writer<Visiting>,
    /// Departures whose gates were told, and which nobody has to remember any more.
    told: Mutex<Vec<Departure>>,
}

impl Gatekeeper {
    pub(crate) fn start(cell: &Cell) -> Self {
        Self {
            visiting: gates::start_visiting(cell),
            told: Mutex::default(),
        }
    }

    fn note_told(&self, departures: impl IntoIterator<Item = Departure>) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.extend(departures);
    }

    fn take_told(&self) -> Vec<Departure> {
        std::mem::take(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Tells a gate that a run has ended, and whoever is next that it may come.
pub(crate) async fn leave(inner: &Inner, departure: Departure, subject: &str) {
    let Departure { run, gate, seq } = departure;
    fault::point("leave.before", subject).await;
    let visit = Visit::Leave { seq };
    match inner.gates.visiting.write(Call { gate, run, visit }).await {
        Ok(answer) => {
            fault::point("leave.after", subject).await;
            if !answer.summons.is_empty() {
                if let Err(error) = queue::summon(&inner.cell, &answer.summons).await {
                    tracing::debug!(%error, gate.id = %gate, "the next at a gate is told later");
                }
                inner.wake.notify_one();
            }
            inner.gates.note_told([departure]);
        }
        Err(error) => tracing::warn!(%error, run.id = %run, gate.id = %gate,
            "a gate could not be told of a run's end; that is made good"),
    }
}

/// Clears departures, and makes good what another process left undone, for as long as the process
/// lives.
pub(crate) async fn keep_telling(inner: Arc<Inner>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let told = inner.gates.take_told();
        if !told.is_empty()
            && let Err(error) = gate_exits::remove(&inner.cell, &told).await
        {
            tracing::debug!(%error, "departures could not be cleared yet");
            inner.gates.note_told(told);
        }
        if let Err(error) = make_good(&inner).await {
            tracing::debug!(%error, "could not look for departures");
        }
    }
}

async fn make_good(inner: &Inner) -> Result<(), ReadError> {
    for departure in gate_exits::take_overdue(&inner.cell).await? {
        leave(inner, departure, "").await;
    }
    let overdue = gates::list_overdue(&inner.cell).await?;
    if !overdue.is_empty() {
        queue::summon(&inner.cell, &overdue).await?;
        inner.wake.notify_one();
    }
    Ok(())
}
