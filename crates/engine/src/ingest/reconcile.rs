//! Items that a source lists and no delivery brought, accepted like any other delivery.
//!
//! An item has the key that its delivery would carry, in the space of keys that senders give. So a
//! delivery that comes late finds the run of its item, and the other way round. What an item looks
//! like and what a delivery looks like are two descriptions of one thing: their fingerprints are not
//! compared. The later one is a duplicate, recorded with its payload.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use semel_flow::Scope;
use semel_flow::release::Reconcile;
use semel_model::event::Event;
use semel_model::{ClaimId, Key, KeySpace, Mismatch, RunId, SeededBug, TriggerKind};
use semel_store::claims::AcceptResult;
use semel_store::{ReadError, journal};
use serde_json::Value;

use super::delivery::{read_payload, tell};
use super::inbound::{Request, describe};
use super::{Inbound, Intake, IntakeError};
use crate::catalogue::Release;
use crate::runtime::Runtime;

/// An item that is ready to start a run.
#[derive(Clone, Debug)]
pub(crate) struct ListedItem {
    /// Its key.
    pub(crate) key: Key,
    /// The claim of its key.
    pub(crate) claim: ClaimId,
    /// The input of its run.
    pub(crate) input: Value,
}

impl ListedItem {
    /// Evaluates what a release says of an item; or says what is wrong with it.
    ///
    /// The trigger must compute the same key from the input: otherwise a late delivery would start
    /// a second run of the same thing.
    pub(crate) fn read(
        release: &Release,
        reconcile: &Reconcile,
        item: &Value,
    ) -> Result<Self, String> {
        let scope = item_scope(release, item);
        let key = tell(None, &reconcile.key, &scope)?.ok_or("there is no key")?;
        let input = match &reconcile.input {
            Some(input) => input
                .eval(&scope)
                .map_err(|error| format!("`input`: {error}"))?,
            None => item.clone(),
        };
        if let Some(expr) = release.flow.trigger.key() {
            let (request, trigger) = (Request::default(), describe(TriggerKind::Reconcile));
            let theirs = tell(None, expr, &request.scope(release, &trigger, &input))
                .map_err(|error| format!("the trigger's key: {error}"))?;
            if theirs.as_ref() != Some(&key) {
                return Err("the trigger computes another key for it".to_owned());
            }
        }
        let claim = ClaimId::derive(&release.namespace, &release.flow.name, &key);
        Ok(Self { key, claim, input })
    }
}

/// What the expressions of an item see.
pub(crate) fn item_scope<'a>(release: &'a Release, item: &'a Value) -> Scope<'a> {
    Scope::new()
        .with("item", item)
        .with("env", &release.flow.env)
}

impl Runtime {
    /// Accepts an item that no delivery had brought, for the pass of an instant.
    pub(crate) async fn receive_item(
        self: &Arc<Self>,
        release: Arc<Release>,
        item: ListedItem,
        nominal: Timestamp,
    ) -> Result<Intake, IntakeError> {
        let text = item.input.to_string();
        let payload = read_payload(text.into_bytes())?;
        let space = match SeededBug::ReconciledUnderOwnKey.is_seeded() {
            true => KeySpace::Schedule,
            false => KeySpace::Given,
        };
        let named = (space, item.key);
        let kind = TriggerKind::Reconcile;
        self.receive(Inbound {
            nominal: Some(nominal),
            ..Inbound::new(release, kind, named, payload, Mismatch::Accept)
        })
        .await
    }

    /// What happens to a delivery whose payload differs from that of the run that it met: nothing
    /// that a sender notices, where a reconcile pass started that run.
    pub(super) async fn mismatch_policy(
        &self,
        inbound: &Inbound,
        met: &AcceptResult,
    ) -> Result<Mismatch, IntakeError> {
        if inbound.mismatch == Mismatch::Accept {
            return Ok(Mismatch::Accept);
        }
        match self.reconciled_at(met.run, met.accepted_at).await? {
            Some(_) => Ok(Mismatch::Accept),
            None => Ok(inbound.mismatch),
        }
    }

    /// The pass that started a run, where one did.
    pub(crate) async fn reconciled_at(
        &self,
        run: RunId,
        accepted_at: Timestamp,
    ) -> Result<Option<Timestamp>, ReadError> {
        let partition_date = accepted_at.to_zoned(TimeZone::UTC).date();
        let first = journal::read_first(self.cell.of(run), partition_date, run).await?;
        let events = first.and_then(|row| row.read().ok()).unwrap_or_default();
        Ok(match events.into_iter().next() {
            Some(Event::Accepted {
                trigger: TriggerKind::Reconcile,
                nominal,
                ..
            }) => nominal,
            Some(_) | None => None,
        })
    }
}
