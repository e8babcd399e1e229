//! Intake: from an arrival to a claim and its run.
//!
//! Life of a delivery: verify its signature, read the payload, evaluate the trigger's `when`,
//! compute the key, check the payload against the flow's schema, take the fingerprint, and accept
//! it. Accepting is one commit, which deliveries share; the sender is answered only after it. A run
//! that this process has room for starts at once, under this process's lease.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use semel_model::run::RunState;
use semel_model::{
    ClaimId, ClaimVerdict, DeliveryId, FlowName, Key, Mismatch, RunId, SeededBug, TriggerKind,
};
use semel_steps::failpoint::failpoint;
use semel_store::claims::{AcceptResult, Delivery};
use semel_store::duplicates::{DuplicateVerdict, StoppedRepeat, Subject};
use semel_store::queue::ReturnCause;
use semel_store::runs::RunView;
use semel_store::tallies::TallyKind;

use crate::catalogue::Release;
use crate::memory;
use crate::rehearsal::CrashPoint;
use crate::runtime::Runtime;
use crate::turn::{FirstEffectPlan, LoadedRun, Turn, TurnStart, first_row, room, take};

mod api;
mod backlog;
pub mod callback;
mod challenge;
mod delivery;
mod error;
pub(crate) mod event;
mod held;
mod inbound;
mod input;
mod key;
mod order;
mod reconcile;
mod replay;
mod schedule;
mod seeded_bug;
mod signature;
mod webhook;

pub use api::{KeySource, Start};
pub(crate) use delivery::read_stored;
use delivery::{begin_unplanned, first_event, first_state};
pub use error::IntakeError;
pub(crate) use inbound::Inbound;
pub(crate) use key::key_of;
pub use order::StaleDelivery;
pub(crate) use reconcile::{ListedItem, item_scope};
pub use webhook::{Authentic, WebhookRequest};

/// The most bytes of a payload.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// What became of an arrival.
#[derive(Clone, Debug)]
pub enum Intake {
    /// It has a run, its own or the first's.
    Accepted(Accepted),
    /// The trigger's `when` was false.
    Ignored,
    /// Something newer of its object was accepted before: it is recorded, and has no run.
    Stale(Box<StaleDelivery>),
    /// It brought a known key with another payload, or a known signed body under another key, and
    /// is held for an operator.
    Held(Accepted),
}

/// The run that answers for a delivery.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// The run.
    pub run: RunId,
    /// The key.
    pub key: Key,
    /// The flow.
    pub flow: String,
    /// Whether an earlier delivery made the run.
    pub replayed: bool,
    /// What the record says of the run.
    pub state: RunState,
    /// Its result, as JSON text, once there is one.
    pub result: Option<String>,
    /// Its fault, as JSON text, once there is one.
    pub fault: Option<String>,
    /// When the first delivery was accepted.
    pub accepted_at: Timestamp,
}

/// The run that answers for a repeat.
impl From<RunView> for Accepted {
    fn from(run: RunView) -> Self {
        Self {
            run: run.id,
            key: run.key,
            flow: run.flow,
            replayed: true,
            state: run.state,
            result: run.result,
            fault: run.fault,
            accepted_at: run.accepted_at,
        }
    }
}

impl Runtime {
    /// The live release behind a hook's address.
    async fn live_hook(&self, namespace: &str, path: &str) -> Result<Arc<Release>, IntakeError> {
        let found = self.find_hook(namespace, path).await?;
        found.ok_or(IntakeError::UnknownHook)
    }

    /// The live release of a flow.
    pub(crate) async fn live_flow(
        &self,
        namespace_id: i32,
        flow: &FlowName,
    ) -> Result<Arc<Release>, IntakeError> {
        let found = self.find_flow(namespace_id, flow).await?;
        found.ok_or(IntakeError::UnknownFlow)
    }
}

impl Runtime {
    /// Has a delivery accepted whose input fits the flow's schema.
    pub(crate) async fn receive(self: &Arc<Self>, inbound: Inbound) -> Result<Intake, IntakeError> {
        self.must_fit(&inbound).await?;
        self.accept(inbound).await
    }

    /// Accepts a delivery, and starts its run if it is new and there is room. Finishes even where
    /// the sender hangs up.
    async fn accept(self: &Arc<Self>, inbound: Inbound) -> Result<Intake, IntakeError> {
        self.finish_boxed(Self::accept_boxed(self.clone(), inbound))
            .await
    }

    /// Boxed in a function that is no coroutine, for the reason of `Turn::go_boxed`.
    fn accept_boxed(
        engine: Arc<Self>,
        inbound: Inbound,
    ) -> BoxFuture<'static, Result<Intake, IntakeError>> {
        Box::pin(async move { engine.accept_now(inbound).await })
    }

    async fn accept_now(self: &Arc<Self>, mut inbound: Inbound) -> Result<Intake, IntakeError> {
        let release = inbound.release.clone();
        let flow = &release.flow;
        let (namespace, key) = (&release.namespace, &inbound.key);
        let claim = ClaimId::derive_in(inbound.space, namespace, &flow.name, key);
        let claim = seeded_bug::claim(claim);
        let fingerprint = inbound.fingerprint;
        if release.has_gates
            && let Some(stale) = order::judge(self, &inbound, claim).await?
        {
            return Ok(Intake::Stale(Box::new(stale)));
        }
        let session = self.session();
        let place = match self.shutdown.requested.is_cancelled() || !session.is_live() {
            true => None,
            false => self.work.room.try_enter(release.namespace_id),
        };
        // A run that does not fit into memory now waits in the queue.
        let weight = memory::parsed_bytes(inbound.text.as_bytes());
        let place = place.and_then(|place| {
            let (room, budget) = (&self.work.room, &self.options.memory);
            let memory = room.try_memory(budget, inbound.release.namespace_id, weight)?;
            Some(place.with(memory))
        });
        let input = std::mem::take(&mut inbound.input);
        let unread = |error: serde_json::Error| IntakeError::NotJson(error.to_string());
        let first = first_event(&inbound).map_err(unread)?;
        let events = first_row(&first, &[]).map_err(unread)?;
        let seems_known = self.local.recent.has(claim);
        let mut begun = None;
        let mut first_effect = None;
        if place.is_some() && !seems_known {
            let state = first_state(RunId::derive(claim, 0), &inbound, input);
            if release.may_open {
                let key = &inbound.key;
                let planned = FirstEffectPlan::plan(self, &release, key, state, &first);
                (begun, first_effect) = planned.unzip();
            } else {
                begun = Some(TurnStart::At(Box::new(state)));
            }
        } else {
            inbound.input = input;
        }
        let delivery = Delivery {
            claim,
            key: inbound.key.clone(),
            fingerprint,
            namespace_id: inbound.release.namespace_id,
            release_id: inbound.release.id,
            keep: flow.keep,
            expires_as_new: flow.expires_as_new,
            delivery: DeliveryId::generate(),
            events,
            holder: place.as_ref().map(|_| session.id),
            first_effect,
            seems_known,
            run_max: inbound.run_max,
            lease: inbound.lease,
        };
        let holdings = &self.work.holdings;
        let expected = place.as_ref().map(|_| holdings.expect(session.id, claim));
        reach(self, "accept.before", &inbound, claim).await;
        if SeededBug::AcknowledgedBeforeCommit.is_seeded() {
            let met = seeded_bug::acknowledge(self, delivery);
            return Ok(Intake::Accepted(answer(&inbound, &met, false)));
        }
        let give_up_room = || {
            if let Some(TurnStart::With(plan)) = &mut begun {
                plan.give_up_room();
            }
        };
        let writing = self.writers.accept.write(delivery);
        let met = match room::unless_slow(writing, give_up_room).await {
            Ok(met) => met,
            Err(error) => {
                // It may be committed under this process's lease, now or later: the queue is
                // compared.
                drop(expected);
                self.work.holdings.ask_after_failure();
                return Err(error.into());
            }
        };
        if met.lost_lease {
            let reason = "another server decides the instant";
            return Err(IntakeError::Unavailable(reason.to_owned()));
        }
        reach(self, "accept.after", &inbound, claim).await;
        self.local.recent.note(claim);
        match met.verdict {
            ClaimVerdict::New => {
                self.metrics.accepted.add_one();
                let flow = release.tallied();
                self.local.tallies.add(flow, TallyKind::Accepted, 1);
                let accepted = answer(&inbound, &met, false);
                match place {
                    // Another turn reads the journal, and decides under what is paused now.
                    Some(_) if met.undecided => {
                        let lease = (met.run, 1);
                        self.return_to_queue(lease, session.id, ReturnCause::Overtaken);
                    }
                    Some(place) => {
                        let begun = match begun {
                            Some(begun) if met.run == RunId::derive(claim, 0) => begun,
                            _ => begin_unplanned(&mut inbound, &met),
                        };
                        let fresh = LoadedRun {
                            run: met.run,
                            key: inbound.key.clone(),
                            partition_date: met.accepted_at.to_zoned(TimeZone::UTC).date(),
                            accepted_at: met.accepted_at,
                            begun,
                        };
                        let turn = Turn::begin(self.clone(), release, session, place, fresh);
                        // In a box: spawning moves the future.
                        self.work.turns.spawn(Box::pin(turn.drive()));
                    }
                    None => {
                        if release.flow.priority() != 0 {
                            take::give_head_start(self, met.run, release.flow.priority()).await;
                        }
                        self.signals.wake.notify_one();
                    }
                }
                Ok(Intake::Accepted(accepted))
            }
            ClaimVerdict::Duplicate => {
                self.metrics.duplicates.add_one();
                let flow = release.tallied();
                self.local.tallies.add(flow, TallyKind::Repeat, 1);
                let subject = Subject::Claim(claim);
                let repeat = stopped(self, &inbound, subject, met.run, DuplicateVerdict::Repeat);
                self.writers.duplicates.add(repeat);
                let mut accepted = answer(&inbound, &met, true);
                let on_repeat = (inbound.resumes, inbound.replays);
                if accepted.state == RunState::Failed {
                    Box::pin(self.repeat(&release, on_repeat, &mut accepted)).await?;
                }
                Ok(Intake::Accepted(accepted))
            }
            ClaimVerdict::Mismatch => Box::pin(self.mismatch(&inbound, claim, &met)).await,
        }
    }

    /// Does what the trigger says of the repeat of a run that failed: `on_repeat`.
    pub(crate) async fn repeat(
        self: &Arc<Self>,
        release: &Release,
        (resumes, replays): (bool, bool),
        accepted: &mut Accepted,
    ) -> Result<(), IntakeError> {
        if accepted.state != RunState::Failed {
            return Ok(());
        }
        if resumes && !SeededBug::RepeatDoesNotResume.is_seeded() {
            let (run, fault) = (accepted.run, accepted.fault.as_deref());
            let resumed = self.resume_for_repeat(run, fault, release.flow.keep);
            if resumed.await? {
                accepted.state = RunState::Active;
                (accepted.result, accepted.fault) = (None, None);
            }
        }
        if replays {
            self.replay_for_repeat(release.namespace_id, accepted)
                .await?;
        }
        Ok(())
    }

    /// A known key with another payload: never a second run.
    async fn mismatch(
        self: &Arc<Self>,
        inbound: &Inbound,
        claim: ClaimId,
        met: &AcceptResult,
    ) -> Result<Intake, IntakeError> {
        self.metrics.mismatches.add_one();
        let flow = inbound.release.tallied();
        self.local.tallies.add(flow, TallyKind::Mismatch, 1);
        let policy = self.mismatch_policy(inbound, met).await?;
        let kind = match policy {
            Mismatch::Reject | Mismatch::Accept => DuplicateVerdict::Mismatch,
            Mismatch::Hold => DuplicateVerdict::Held,
        };
        let subject = Subject::Claim(claim);
        let repeat = stopped(self, inbound, subject, met.run, kind);
        let id = repeat.id();
        match policy {
            Mismatch::Accept => self.writers.duplicates.add(repeat),
            // On disk before the answer, or an error: a provider that gets the answer sends no more.
            Mismatch::Reject | Mismatch::Hold => self.writers.duplicates.record(repeat).await?,
        }
        match policy {
            Mismatch::Reject => {
                let error = IntakeError::Mismatch { run: met.run };
                let reason = format!("key {}: {error}", inbound.key);
                input::note_refusal(self, &inbound.release, &error, &reason).await;
                Err(error)
            }
            Mismatch::Accept => Ok(Intake::Accepted(answer(inbound, met, true))),
            Mismatch::Hold => held::answer(self, inbound, id, answer(inbound, met, true)).await,
        }
    }
}

/// A commit point: where tests hold the process, and where a rehearsal ends one.
async fn reach(runtime: &Runtime, name: &'static str, inbound: &Inbound, claim: ClaimId) {
    failpoint(name, &inbound.key.text()).await;
    // A call is received by the service that hands on the calls of all cases: it does not end there.
    let is_call = inbound.trigger == TriggerKind::Call;
    if let Some(rehearsal) = runtime.rehearsal.as_ref().filter(|_| !is_call) {
        let point = CrashPoint {
            name,
            namespace_id: inbound.release.namespace_id,
            run: RunId::derive(claim, 0),
            step: "",
        };
        rehearsal.points.reach(point).await;
    }
}

/// A delivery whose key cannot be computed is refused, and the refusal is recorded.
async fn refuse(runtime: &Runtime, release: &Release, reason: String) -> IntakeError {
    let error = IntakeError::KeyFailed(reason.clone());
    input::note_refusal(runtime, release, &error, &reason).await;
    error
}

fn answer(inbound: &Inbound, met: &AcceptResult, replayed: bool) -> Accepted {
    Accepted {
        run: met.run,
        key: inbound.key.clone(),
        flow: inbound.release.flow.name.to_string(),
        replayed,
        state: met.state,
        result: met.result.clone(),
        fault: met.fault.clone(),
        accepted_at: met.accepted_at,
    }
}

fn stopped(
    runtime: &Runtime,
    inbound: &Inbound,
    subject: Subject,
    run: RunId,
    kind: DuplicateVerdict,
) -> StoppedRepeat {
    StoppedRepeat {
        subject,
        namespace_id: inbound.release.namespace_id,
        run,
        fingerprint: inbound.fingerprint,
        kind,
        payload: (kind != DuplicateVerdict::Repeat).then(|| inbound.text.clone()),
        arrival: (kind == DuplicateVerdict::Held).then(|| held::arrival_of(inbound)),
        at: runtime.clock.now(),
    }
}
