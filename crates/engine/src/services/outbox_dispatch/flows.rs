//! The flows that an event is for: each is recorded with its release before it is asked.
//!
//! A repeat asks the recorded release, whichever is live by then, so that it comes under the same key. The recorded number
//! keeps it from making a further run of that key (`claims`, `run_max`). A flow that has the event is not asked again.

use std::collections::HashMap;
use std::mem;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use semel_model::{ClaimId, EffectId, Key, KeySpace, SessionId};
use semel_store::ReadError;
use semel_store::outbox::{self, NewReceiver, OutboxEvent, TakenEvent};

use super::PANICKED;
use super::calls::is_message;
use crate::catalogue::Release;
use crate::ingest::IntakeError;
use crate::ingest::event::EventPayload;
use crate::runtime::Runtime;
use crate::turn::parent_state::Unread;

/// How many flows are asked for one event at the same time.
const FLOWS_TOGETHER: usize = 4;

/// A flow that takes an event, and does not have it yet.
struct AskedFlow {
    release: Arc<Release>,
    named: (KeySpace, Key),
    /// The number of the last run of the key that the event may make; nothing before it is recorded.
    run_max: Option<i32>,
}

/// The flows that an event is for.
#[derive(Default)]
pub(super) struct FlowsOfEvent {
    to_ask: Vec<AskedFlow>,
    /// The flows that have it, or refused it for good, each with its release.
    pub(super) has: Vec<(i32, i32)>,
    /// Why some flow does not have it.
    pub(super) left: Option<Unread>,
}

impl FlowsOfEvent {
    fn leave(&mut self, unread: Unread) {
        let known = self.left.take();
        self.left = Some(match known {
            Some(known) => known.sooner(unread),
            None => unread,
        });
    }

    /// Takes over the numbers that were recorded. What another server has recorded is that server's to ask.
    fn number(&mut self, event: EffectId, recorded: &HashMap<(EffectId, i32), i32>) {
        for mut flow in mem::take(&mut self.to_ask) {
            let number = recorded.get(&(event, flow.release.flow_id)).copied();
            flow.run_max = flow.run_max.or(number);
            match flow.run_max {
                Some(_) => self.to_ask.push(flow),
                None => self.leave(Unread::Unavailable("another server has it".to_owned())),
            }
        }
    }
}

impl Runtime {
    /// Finds the flows that a few events are for, and records in one commit those that were not asked before. Nothing for
    /// a message between runs.
    pub(super) async fn find_flows(
        self: &Arc<Self>,
        session: SessionId,
        group: &[TakenEvent],
    ) -> Result<Vec<Option<FlowsOfEvent>>, ReadError> {
        let mut found = Vec::with_capacity(group.len());
        let mut new = Vec::new();
        for taken in group {
            if is_message(&taken.event) {
                found.push(None);
                continue;
            }
            let finding = AssertUnwindSafe(self.find_flows_of(taken)).catch_unwind();
            let flows = finding.await.unwrap_or_else(|_| {
                let mut flows = FlowsOfEvent::default();
                flows.leave(Unread::Damaged(PANICKED.to_owned()));
                flows
            });
            let unasked = flows.to_ask.iter().filter(|flow| flow.run_max.is_none());
            new.extend(unasked.map(|flow| new_receiver(taken.event.id, flow)));
            found.push(Some(flows));
        }
        if !new.is_empty() {
            let recorded = outbox::ask(self.cell.every(), session, &new).await?;
            for (taken, flows) in group.iter().zip(&mut found) {
                if let Some(flows) = flows {
                    flows.number(taken.event.id, &recorded);
                }
            }
        }
        Ok(found)
    }

    async fn find_flows_of(self: &Arc<Self>, taken: &TakenEvent) -> FlowsOfEvent {
        let event = &taken.event;
        let payload = EventPayload::read(event);
        let mut flows = FlowsOfEvent::default();
        for known in &taken.receivers {
            if known.has_it {
                continue;
            }
            match self.catalogue.get(known.release_id).await {
                Ok(Some(release)) => {
                    let run_max = Some(known.run_max);
                    self.name_flow(&mut flows, event, &payload, release, run_max)
                        .await;
                }
                Ok(None) => flows.leave(Unread::Newer("the release of a receiver".to_owned())),
                Err(error) => flows.leave(error.into()),
            }
        }
        for release in self
            .catalogue
            .releases_for_event(event.namespace_id, &event.event)
        {
            let mut known = taken.receivers.iter();
            if !known.any(|known| known.flow_id == release.flow_id) {
                self.name_flow(&mut flows, event, &payload, release, None)
                    .await;
            }
        }
        // It may take the event, which another server can tell.
        if self.catalogue.has_unread(event.namespace_id) {
            flows.leave(Unread::Newer("a live release of its namespace".to_owned()));
        }
        flows
    }

    /// Works out the key under which a release takes an event. Others have their turn after each: a condition may take
    /// long.
    async fn name_flow(
        self: &Arc<Self>,
        flows: &mut FlowsOfEvent,
        event: &OutboxEvent,
        payload: &EventPayload,
        release: Arc<Release>,
        run_max: Option<i32>,
    ) {
        match self.name_event(&release, event, payload).await {
            Ok(Some(named)) => flows.to_ask.push(AskedFlow {
                release,
                named,
                run_max,
            }),
            Ok(None) => {}
            Err(IntakeError::Unavailable(reason)) => flows.leave(Unread::Unavailable(reason)),
            Err(error) => {
                tracing::warn!(code = error.code(), event.id = %event.id, "an event was refused");
                flows.has.push((release.flow_id, release.id));
            }
        }
        tokio::task::yield_now().await;
    }

    /// Asks the flows that do not have an event yet.
    pub(super) async fn ask_flows(
        self: &Arc<Self>,
        event: &OutboxEvent,
        payload: &EventPayload,
        mut flows: FlowsOfEvent,
    ) -> FlowsOfEvent {
        let to_ask = mem::take(&mut flows.to_ask);
        for few in to_ask.chunks(FLOWS_TOGETHER) {
            let asking = few.iter().map(|flow| {
                let (release, named) = (flow.release.clone(), flow.named.clone());
                self.receive_named_event(release, event, payload, named, flow.run_max)
            });
            let answers = join_all(asking).await;
            for (flow, answer) in few.iter().zip(answers) {
                match answer {
                    Ok(_) => {}
                    Err(IntakeError::Unavailable(reason)) => {
                        flows.leave(Unread::Unavailable(reason));
                        continue;
                    }
                    Err(error) => {
                        tracing::warn!(code = error.code(), event.id = %event.id, "an event was refused");
                    }
                }
                flows.has.push((flow.release.flow_id, flow.release.id));
            }
        }
        flows
    }
}

fn new_receiver(event: EffectId, flow: &AskedFlow) -> NewReceiver {
    let release = &flow.release;
    let (space, key) = &flow.named;
    NewReceiver {
        event,
        flow_id: release.flow_id,
        release_id: release.id,
        claim: ClaimId::derive_in(*space, &release.namespace, &release.flow.name, key),
    }
}
