//! Starts by programs and people.
//!
//! Where the trigger has a `key`, that expression alone names the run. A caller's own key then
//! names the request, which the server deduplicates; it never makes another run of one intent.
//! Where the trigger has none, the caller's key is the run's.

use std::sync::Arc;

use std::time::Duration;

use semel_model::{
    ClaimId, Fingerprint, FlowName, Key, KeySpace, NamespaceName, RunId, TriggerKind,
};
use semel_store::duplicates::{DuplicateVerdict, StoppedRepeat, Subject};
use semel_store::runs;
use semel_store::tallies::TallyKind;

use super::delivery::{read_payload, tell};
use super::inbound::{Request, describe};
use super::{Accepted, Inbound, Intake, IntakeError, refuse};
use crate::runtime::Runtime;

/// How long a list of repeats waits for those that were just counted.
const FLUSH_PATIENCE: Duration = Duration::from_secs(2);

/// A start by a program or a person.
#[derive(Clone, Debug)]
pub struct Start {
    /// The namespace, short.
    pub namespace_id: i32,
    /// The namespace.
    pub namespace: NamespaceName,
    /// The flow.
    pub flow: FlowName,
    /// Whether a program or a person starts it.
    pub trigger: TriggerKind,
    /// The payload, as JSON text.
    pub input: Vec<u8>,
    /// The caller's key, where the trigger has none.
    pub key: Option<Key>,
    /// Who starts it.
    pub by: Option<String>,
}

/// Who names the runs that a trigger starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// The trigger's `key`.
    Flow,
    /// The caller that starts them.
    Caller,
}

impl Runtime {
    /// Who names the runs of a flow that are started in this way.
    ///
    /// # Errors
    ///
    /// Where there is no such flow, or it is not started in this way.
    pub async fn key_source(
        self: &Arc<Self>,
        namespace_id: i32,
        flow: &FlowName,
        trigger: TriggerKind,
    ) -> Result<KeySource, IntakeError> {
        let release = self.live_flow(namespace_id, flow).await?;
        let declared = release.flow.trigger.start(trigger);
        match declared
            .ok_or(IntakeError::NoTrigger { kind: trigger })?
            .key
        {
            Some(_) => Ok(KeySource::Flow),
            None => Ok(KeySource::Caller),
        }
    }

    /// Accepts a start by a program or a person.
    ///
    /// # Errors
    ///
    /// Where it has no key or one too many, does not fit the flow's schema, brings another payload
    /// for a known key, or cannot be stored.
    pub async fn start_run(self: &Arc<Self>, start: Start) -> Result<Intake, IntakeError> {
        let release = self.live_flow(start.namespace_id, &start.flow).await?;
        let trigger = start.trigger;
        let Some(declared) = release.flow.trigger.start(trigger) else {
            return Err(IntakeError::NoTrigger { kind: trigger });
        };
        let (input, text) = read_payload(start.input)?;
        let key = match (start.key, &declared.key) {
            (Some(_), Some(_)) => return Err(IntakeError::KeyDeclared),
            (Some(key), None) => key,
            (None, None) => return Err(IntakeError::NoKey),
            (None, Some(expr)) => {
                let (request, kind) = (Request::default(), describe(trigger));
                match tell(None, expr, &request.scope(&release, &kind, &input)) {
                    Ok(Some(key)) => key,
                    Ok(None) => return Err(IntakeError::NoKey),
                    Err(reason) => return Err(refuse(self, &release, reason).await),
                }
            }
        };
        let (mismatch, resumes) = (declared.mismatch, declared.resumes);
        let replays = declared.replays;
        let named = (KeySpace::Given, key);
        let inbound = Inbound {
            // Whatever this release asks: the run may be replayed on one that asks who started it.
            by: start.by,
            resumes,
            replays,
            ..Inbound::new(release, trigger, named, (input, text), mismatch)
        };
        self.must_have_room(&inbound).await?;
        self.receive(inbound).await
    }

    /// Stores the repeats that were counted since the last time, for a request that lists them.
    /// Where the database does not take them now, they are stored later.
    pub async fn write_down_repeats(self: &Arc<Self>) {
        let flushed = tokio::time::timeout(FLUSH_PATIENCE, self.writers.duplicates.flush()).await;
        if !matches!(flushed, Ok(Ok(()))) {
            tracing::debug!("failed to store repeats; they are stored later");
        }
    }

    /// Answers a repeated start with the run that answered the first, in its state of now. The
    /// repeat is counted. Nothing where the run has been deleted.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    pub async fn meet_again(
        self: &Arc<Self>,
        start: &Start,
        run: RunId,
        fingerprint: Fingerprint,
    ) -> Result<Option<Accepted>, IntakeError> {
        let namespace_id = start.namespace_id;
        let found = runs::find(self.cell.of(run), namespace_id, run).await;
        let Some(view) = found? else {
            return Ok(None);
        };
        self.metrics.duplicates.add_one();
        if let Some(release) = self.catalogue.find_flow(namespace_id, &start.flow) {
            let flow = release.tallied();
            self.local.tallies.add(flow, TallyKind::Repeat, 1);
        }
        let claim = ClaimId::derive(&start.namespace, &start.flow, &view.key);
        self.writers.duplicates.add(StoppedRepeat {
            subject: Subject::Claim(claim),
            namespace_id,
            run,
            fingerprint,
            kind: DuplicateVerdict::Repeat,
            payload: None,
            arrival: None,
            at: self.clock.now(),
        });
        let mut accepted = Accepted::from(view);
        let release = self.live_flow(namespace_id, &start.flow).await?;
        let declared = release.flow.trigger.start(start.trigger);
        if let Some(declared) = declared {
            let on_repeat = (declared.resumes, declared.replays);
            self.repeat(&release, on_repeat, &mut accepted).await?;
        }
        Ok(Some(accepted))
    }
}
