//! Held deliveries: an operator lets one in or dismisses it.
//!
//! ```text
//! dismiss, as a repeat    decide ══▶ answer           a repeat may resume or replay a run that failed
//! as a new key            decide ══▶ accept ══▶ note  the claim of the key makes the run, once
//! ```
//!
//! Of two operators one decides; the other learns what was decided. A decision without its run, which a
//! server that died leaves, is completed by the same command.

use std::sync::Arc;

use semel_model::{ClaimId, DuplicateId, FlowName, Key, KeySpace, Mismatch, RunId, TriggerKind};
use semel_store::audit::{AuditEntry, REASON_CHARS_MAX};
use semel_store::duplicates::{
    self, DecisionKind, DecisionView, HeldArrival, HeldDecision, HeldDelivery,
};
use semel_store::{claims, namespaces, runs};

use crate::catalogue::Release;
use crate::commands::connection::Actor;
use crate::ingest::{Accepted, Inbound, Intake, IntakeError, read_stored};
use crate::runtime::Runtime;

mod error;

pub use error::HeldError;

/// What an operator decides about a held delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldWish {
    /// A run of its own, under this key.
    NewKey(Key),
    /// The existing run answers for it, as for any repeat.
    Repeat,
    /// Nothing comes of it.
    Dismiss,
}

impl HeldWish {
    const fn action(&self) -> &'static str {
        match self {
            Self::NewKey(_) => "duplicate.accept new-key",
            Self::Repeat => "duplicate.accept repeat",
            Self::Dismiss => "duplicate.dismiss",
        }
    }

    /// Whether this was decided before: by the same operator, or by one whose command was cut short.
    fn is_repeated(&self, made: &DecisionView, actor: &str) -> bool {
        let same = match (self, made.kind) {
            (Self::NewKey(key), DecisionKind::NewKey) => made.key.as_ref() == Some(key),
            (Self::Repeat, DecisionKind::Repeat) | (Self::Dismiss, DecisionKind::Dismissed) => true,
            (Self::NewKey(_) | Self::Repeat | Self::Dismiss, _) => false,
        };
        let unfinished = made.kind == DecisionKind::NewKey && made.run.is_none();
        same && (unfinished || made.by == actor)
    }
}

/// What a decision came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldOutcome {
    /// What was decided.
    pub decision: DecisionKind,
    /// The run that the delivery has now.
    pub run: Option<RunId>,
}

impl Runtime {
    /// Decides a held delivery in an operator's name. When this returns, the decision and what follows
    /// from it are committed.
    pub async fn decide_held(
        self: &Arc<Self>,
        by: Actor<'_>,
        id: DuplicateId,
        wish: &HeldWish,
        reason: &str,
    ) -> Result<HeldOutcome, HeldError> {
        let act = by.act(wish.action(), &id.to_string()).because(reason)?;
        let held = duplicates::find_held(self.cell.of(id), by.namespace_id, id).await?;
        let held = held.ok_or(HeldError::Unknown)?;
        if !held.is_held {
            let message = "it was not held: its sender has its answer".to_owned();
            return Err(HeldError::Unfit(message));
        }
        match &held.decision {
            Some(made) if !wish.is_repeated(made, by.actor) => {
                return Err(HeldError::Decided(Box::new(made.clone())));
            }
            Some(_) | None => {}
        }
        let act = act.about(held.run);
        let run = match wish {
            HeldWish::Dismiss => {
                let decision = HeldDecision::Dismissed;
                self.record(by, &held, (wish, &decision), &act).await?;
                None
            }
            HeldWish::Repeat => Some(self.accept_as_repeat(by, &held, wish, &act).await?),
            HeldWish::NewKey(key) => Some(self.accept_as_new(by, &held, (wish, key), &act).await?),
        };
        let decision = match wish {
            HeldWish::NewKey(_) => DecisionKind::NewKey,
            HeldWish::Repeat => DecisionKind::Repeat,
            HeldWish::Dismiss => DecisionKind::Dismissed,
        };
        Ok(HeldOutcome { decision, run })
    }

    /// Records a decision, unless the same command did before.
    async fn record(
        self: &Arc<Self>,
        by: Actor<'_>,
        held: &HeldDelivery,
        (wish, decision): (&HeldWish, &HeldDecision),
        act: &AuditEntry,
    ) -> Result<(), HeldError> {
        let cell = self.cell.of(held.id);
        if held.decision.is_some() || duplicates::decide(cell, held, decision, act).await? {
            return Ok(());
        }
        // Another request was first: the same one, or another operator's.
        let now = duplicates::find_held(cell, by.namespace_id, held.id).await?;
        match now.and_then(|now| now.decision) {
            Some(made) if wish.is_repeated(&made, by.actor) => Ok(()),
            Some(made) => Err(HeldError::Decided(Box::new(made))),
            None => {
                let message = "another decision about it was just taken back: look at it again";
                Err(HeldError::Unfit(message.to_owned()))
            }
        }
    }

    /// The run of its key answers for the delivery. `on_repeat` applies.
    async fn accept_as_repeat(
        self: &Arc<Self>,
        by: Actor<'_>,
        held: &HeldDelivery,
        wish: &HeldWish,
        act: &AuditEntry,
    ) -> Result<RunId, HeldError> {
        let claim = ClaimId::from_uuid(held.subject);
        let now = claims::find(self.cell.of(claim), claim).await?;
        let run = now.as_ref().map_or(held.run, |claim| claim.run);
        let view = runs::find(self.cell.of(run), by.namespace_id, run).await?;
        // The first delivery of a body may have started nothing, because it came too late.
        if now.is_none() && view.is_none() && held.decision.is_none() {
            let message = format!("there is no {run}: accept it as a new key, or dismiss it");
            return Err(HeldError::Unfit(message));
        }
        let decision = HeldDecision::Repeat(run);
        self.record(by, held, (wish, &decision), act).await?;
        let (Some(view), Some(arrival)) = (view, &held.arrival) else {
            return Ok(run);
        };
        let release = match self.held_release(by.namespace_id, arrival).await {
            // Without a trigger nothing says that a repeat resumes the run.
            Err(HeldError::NotLive(_)) => return Ok(run),
            release => release?,
        };
        let mut accepted = Accepted::from(view);
        let on_repeat = on_repeat(&release, arrival.trigger);
        self.repeat(&release, on_repeat, &mut accepted).await?;
        Ok(accepted.run)
    }

    /// Its sender may have sent it again after its key was freed: then it has a run, and a second one
    /// would do its work twice.
    async fn must_have_no_run(
        &self,
        held: &HeldDelivery,
        arrival: &HeldArrival,
        release: &Release,
    ) -> Result<(), HeldError> {
        let came = match held.stopped_by.as_str() {
            "claim" => Some(ClaimId::from_uuid(held.subject)),
            _ => Key::new(arrival.key.as_bytes())
                .ok()
                .map(|key| ClaimId::derive(&release.namespace, &release.flow.name, &key)),
        };
        let Some(came) = came else { return Ok(()) };
        match claims::find(self.cell.of(came), came).await? {
            Some(own) if own.fingerprint == held.payload_fingerprint() => {
                let message = format!("it came again, and {} is its run: dismiss it", own.run);
                Err(HeldError::Unfit(message))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// A run of its own, under a key that has none.
    async fn accept_as_new(
        self: &Arc<Self>,
        by: Actor<'_>,
        held: &HeldDelivery,
        (wish, key): (&HeldWish, &Key),
        act: &AuditEntry,
    ) -> Result<RunId, HeldError> {
        if let Some(run) = held.decision.as_ref().and_then(|made| made.run) {
            return Ok(run);
        }
        let (Some(arrival), Some(payload)) = (&held.arrival, &held.payload) else {
            let message = "its payload was not kept, because too many others came with its key: \
                           dismiss it, and have its sender send it again";
            return Err(HeldError::Unfit(message.to_owned()));
        };
        let release = match self.held_release(by.namespace_id, arrival).await {
            Err(HeldError::NotLive(flow)) if held.decision.is_some() => {
                return self.complete_without_release(by, held, key, flow).await;
            }
            release => release?,
        };
        let payload = read_stored(payload);
        if held.decision.is_none() {
            self.must_have_no_run(held, arrival, &release).await?;
            let claim = ClaimId::derive(&release.namespace, &release.flow.name, key);
            if let Some(taken) = claims::find(self.cell.of(claim), claim).await? {
                let message = format!("the key `{key}` belongs to {}: choose another", taken.run);
                return Err(HeldError::Unfit(message));
            }
            let decision = HeldDecision::NewKey(key.clone());
            self.record(by, held, (wish, &decision), act).await?;
        }
        let (kind, named) = (arrival.trigger, (KeySpace::Given, key.clone()));
        let inbound = Inbound {
            fingerprint: held.payload_fingerprint(),
            headers: arrival.headers.clone(),
            query: arrival.query.clone(),
            by: arrival.by.clone(),
            ..Inbound::new(release, kind, named, payload, Mismatch::Reject)
        };
        match self.receive(inbound).await {
            Ok(Intake::Accepted(accepted)) => self.note_run(by, held, key, accepted.run).await,
            Err(IntakeError::Unavailable(reason)) => Err(HeldError::Unavailable(reason)),
            refused => {
                let error = explain(key, refused);
                Err(self.take_back(by, held, key, error).await?)
            }
        }
    }

    /// Notes the run that the delivery has under its new key. An operator whose decision is not there
    /// to be completed learns what is there.
    async fn note_run(
        &self,
        by: Actor<'_>,
        held: &HeldDelivery,
        key: &Key,
        run: RunId,
    ) -> Result<RunId, HeldError> {
        let cell = self.cell.of(held.id);
        if duplicates::finish(cell, held, (key, run), by.actor).await? {
            return Ok(run);
        }
        let now = duplicates::find_held(cell, by.namespace_id, held.id).await?;
        let now = now.and_then(|now| now.decision);
        let is_same = |made: &DecisionView| made.key.as_ref() == Some(key) && made.run == Some(run);
        match now {
            // The same command, sent twice at once.
            Some(made) if is_same(&made) => Ok(run),
            now => Err(HeldError::Overtaken {
                run,
                now: now.map(Box::new),
            }),
        }
    }

    /// Completes a decision that a crash cut short, of a flow that has no live release by now: its run
    /// was made before, or is not made, and the delivery is held as before.
    async fn complete_without_release(
        self: &Arc<Self>,
        by: Actor<'_>,
        held: &HeldDelivery,
        key: &Key,
        flow: String,
    ) -> Result<RunId, HeldError> {
        let namespace = namespaces::find_name(self.cell.home(), by.namespace_id).await?;
        let name: Result<FlowName, _> = flow.parse();
        if let (Some(namespace), Ok(name)) = (namespace, name) {
            let claim = ClaimId::derive(&namespace, &name, key);
            let own = claims::find(self.cell.of(claim), claim).await?;
            let own = own.filter(|own| own.fingerprint == held.payload_fingerprint());
            if let Some(own) = own {
                return self.note_run(by, held, key, own.run).await;
            }
        }
        let error = HeldError::NotLive(flow);
        Err(self.take_back(by, held, key, error).await?)
    }

    /// Takes a decision back that cannot be carried out, and says why.
    async fn take_back(
        self: &Arc<Self>,
        by: Actor<'_>,
        held: &HeldDelivery,
        key: &Key,
        error: HeldError,
    ) -> Result<HeldError, HeldError> {
        let reason: String = error.to_string().chars().take(REASON_CHARS_MAX).collect();
        let reason = semel_model::storable::without_zero(&reason).into_owned();
        let act = by.act("duplicate.accept refused", &held.id.to_string());
        let act = act.because(&reason)?.about(held.run);
        duplicates::reopen(self.cell.of(held.id), held, key, &act).await?;
        Ok(error)
    }

    async fn held_release(
        self: &Arc<Self>,
        namespace_id: i32,
        arrival: &HeldArrival,
    ) -> Result<Arc<Release>, HeldError> {
        let not_live = || HeldError::NotLive(arrival.flow.clone());
        let flow: FlowName = arrival.flow.parse().map_err(|_| not_live())?;
        let found = self.find_flow(namespace_id, &flow).await;
        found.map_err(IntakeError::from)?.ok_or_else(not_live)
    }
}

/// Why a flow does not take a delivery under its new key.
fn explain(key: &Key, refused: Result<Intake, IntakeError>) -> HeldError {
    match refused {
        Ok(Intake::Stale(stale)) => HeldError::Unfit(format!(
            "something newer of its object was accepted: {}; dismiss it",
            stale.run
        )),
        Ok(Intake::Accepted(_) | Intake::Held(_) | Intake::Ignored) => {
            HeldError::Unfit("its flow does not take it".to_owned())
        }
        Err(IntakeError::Mismatch { run }) => {
            HeldError::Unfit(format!("the key `{key}` belongs to {run}: choose another"))
        }
        Err(error) => error.into(),
    }
}

/// Whether a repeat resumes, and whether it replays, a run that failed, as the trigger says now.
fn on_repeat(release: &Release, kind: TriggerKind) -> (bool, bool) {
    let triggers = &release.flow.trigger;
    let webhook = triggers.webhook.as_ref();
    let event = triggers.event.as_ref();
    let said = match kind {
        TriggerKind::Webhook => webhook.map(|it| (it.resumes, it.replays)),
        TriggerKind::Event => event.map(|it| (it.resumes, it.replays)),
        TriggerKind::Api | TriggerKind::Manual => {
            triggers.start(kind).map(|it| (it.resumes, it.replays))
        }
        TriggerKind::Schedule | TriggerKind::Reconcile | TriggerKind::Call => None,
    };
    said.unwrap_or_default()
}
