//! The doubts of one step, settled together.
//!
//! What an operator looked at has a digest: of the doubts, of their attempts and of the decision. It is
//! applied only while the digest holds. Each doubt is settled by itself then, as its own attempt: what is
//! tried again meanwhile is not settled, and a command that was cut short leaves the others in doubt.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use semel_model::id::digest;
use semel_model::{EffectId, FlowName, RunId};
use semel_store::effects::{self, DoubtFilter, EffectView};
use tokio::time::Instant;

use super::{SettleError, Settlement};
use crate::catalogue::Release;
use crate::commands::connection::Actor;
use crate::commands::operator_result::{ResultNeeded, done_by_operator, done_to_be_undone};
use crate::runtime::Runtime;

/// The most doubts that are settled together; the others follow with the next command.
const DOUBTS_MAX: usize = 500;

/// How many are settled at the same time.
const AT_A_TIME: usize = 8;

/// How long settling may take before the rest is left for the next command.
const PATIENCE: Duration = Duration::from_secs(20);

/// Which doubts belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoubtGroup {
    /// The flow.
    pub flow: FlowName,
    /// The step.
    pub step: String,
    /// The connection that the step goes over, where only those of one are meant.
    pub connection: Option<String>,
    /// What the last attempt saw, where only those that saw the same are meant.
    pub seen: Option<String>,
}

/// One doubt of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDoubt {
    /// The effect.
    pub effect: EffectId,
    /// Its run.
    pub run: RunId,
    /// The attempt that is in doubt.
    pub attempt: i32,
    /// Why it cannot be settled like this, or was not: a stable word, and words for people.
    pub refused: Option<(&'static str, String)>,
}

/// The doubts of a group, and the digest of what would be said about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPlan {
    /// The digest.
    pub digest: String,
    /// The doubts, the oldest first.
    pub doubts: Vec<GroupDoubt>,
    /// Whether the group has more.
    pub has_more: bool,
}

impl Runtime {
    /// Lists the doubts of a group, and what is in the way of settling them like this.
    pub async fn plan_settlement(
        self: &Arc<Self>,
        namespace_id: i32,
        group: &DoubtGroup,
        settlement: &Settlement,
    ) -> Result<GroupPlan, SettleError> {
        let named = (group.flow.as_str(), group.step.as_str());
        let limit = DOUBTS_MAX as i64 + 1;
        let cell = self.cell.every();
        let releases = match &group.connection {
            None => None,
            Some(connection) => Some(self.releases_over(namespace_id, named, connection).await?),
        };
        // Chosen before they are counted: others take no place.
        let filter = DoubtFilter {
            releases: releases.as_deref(),
            seen: group.seen.as_deref(),
        };
        // The database keeps no such text, so that nothing has seen it.
        let mut found = match filter.seen.is_some_and(|seen| seen.contains('\0')) {
            true => Vec::new(),
            false => {
                let found = effects::list_doubts_of_step(cell, namespace_id, named, filter, limit);
                found.await?
            }
        };
        let has_more = found.len() > DOUBTS_MAX;
        found.truncate(DOUBTS_MAX);
        let mut doubts = Vec::with_capacity(found.len());
        for (view, release) in found {
            let release = self.catalogue.get(release).await?;
            doubts.extend(judge(group, settlement, &view, release.as_deref()));
        }
        Ok(GroupPlan {
            digest: digest_of(group, settlement, &doubts),
            doubts,
            has_more,
        })
    }

    /// The releases of runs in doubt whose step goes over a connection, and those that cannot be read:
    /// their doubts are shown, with what is in the way.
    async fn releases_over(
        self: &Arc<Self>,
        namespace_id: i32,
        named: (&str, &str),
        connection: &str,
    ) -> Result<Vec<i32>, SettleError> {
        let cell = self.cell.every();
        let mut over = Vec::new();
        for id in effects::list_releases_in_doubt(cell, namespace_id, named).await? {
            let release = self.catalogue.get(id).await?;
            let goes = release.is_none_or(|release| {
                let step = release.flow.find_step(named.1);
                step.and_then(|step| step.connection()) == Some(connection)
            });
            if goes {
                over.push(id);
            }
        }
        Ok(over)
    }

    /// Settles the doubts of a group, where they are those that the operator looked at. Says of each
    /// that was not settled why.
    ///
    /// # Errors
    ///
    /// Where they have changed, or some need a result of their own: then nothing is settled.
    pub async fn settle_group(
        self: &Arc<Self>,
        by: Actor<'_>,
        group: &DoubtGroup,
        settlement: &Settlement,
        looked_at: &str,
    ) -> Result<GroupPlan, SettleError> {
        let mut plan = self
            .plan_settlement(by.namespace_id, group, settlement)
            .await?;
        if plan.digest != looked_at {
            return Err(SettleError::Changed);
        }
        let refused = plan.doubts.iter().filter(|doubt| doubt.refused.is_some());
        let refused: Vec<String> = refused.map(|doubt| doubt.effect.to_string()).collect();
        if !refused.is_empty() {
            let message = "nothing was settled: these have to be settled one by one";
            return Err(SettleError::ResultNeeded(format!(
                "{message}: {}",
                refused.join(", ")
            )));
        }
        let deadline = Instant::now() + PATIENCE;
        let settling = stream::iter(plan.doubts).map(|doubt| async move {
            let refused = match Instant::now() < deadline {
                true => self.settle_one(by, &doubt, settlement).await,
                false => Some(("run-busy", "there was no time left for it".to_owned())),
            };
            GroupDoubt { refused, ..doubt }
        });
        plan.doubts = settling.buffered(AT_A_TIME).collect().await;
        Ok(plan)
    }

    async fn settle_one(
        self: &Arc<Self>,
        by: Actor<'_>,
        doubt: &GroupDoubt,
        settlement: &Settlement,
    ) -> Option<(&'static str, String)> {
        let subject = (doubt.effect, Some(doubt.attempt));
        let settled = self.settle_attempt(by.namespace_id, subject, settlement.clone(), by.actor);
        let error = settled.await.err()?;
        Some((error.code(), error.to_string()))
    }
}

/// A doubt of the group, and what is in the way; nothing where it goes over another connection.
fn judge(
    group: &DoubtGroup,
    settlement: &Settlement,
    view: &EffectView,
    release: Option<&Release>,
) -> Option<GroupDoubt> {
    let doubt = |refused| GroupDoubt {
        effect: view.id,
        run: view.run,
        attempt: view.attempt,
        refused,
    };
    let Some(release) = release else {
        let message = "its release cannot be read".to_owned();
        return Some(doubt(Some(("journal-inconsistent", message))));
    };
    let step = release.flow.find_step(&view.step);
    let connection = step.and_then(|step| step.connection());
    if group.connection.is_some() && connection != group.connection.as_deref() {
        return None;
    }
    let needed = match settlement {
        Settlement::Happened { .. } => done_by_operator(&release.flow, &view.step, None, None),
        Settlement::Undo { .. } if step.is_none_or(|step| step.undo.is_none()) => {
            let message = format!("`{}` declares no `undo`", view.step);
            return Some(doubt(Some(("body-invalid", message))));
        }
        Settlement::Undo { .. } => done_to_be_undone(&release.flow, &view.step, None, None),
        Settlement::DidNotHappen { .. } | Settlement::Fail { .. } => return Some(doubt(None)),
    };
    let needed = needed.err();
    Some(doubt(
        needed.map(|ResultNeeded(why)| ("result-needed", why)),
    ))
}

/// Everything that the operator looked at. The reason is not part of it.
fn digest_of(group: &DoubtGroup, settlement: &Settlement, doubts: &[GroupDoubt]) -> String {
    let verdict = match settlement {
        Settlement::Happened { .. } => "happened",
        Settlement::Undo { .. } => "undo",
        Settlement::DidNotHappen { .. } => "did-not-happen",
        Settlement::Fail { .. } => "fail",
    };
    let mut all: Vec<Vec<u8>> = vec![
        verdict.as_bytes().to_vec(),
        group.flow.as_str().as_bytes().to_vec(),
        group.step.as_bytes().to_vec(),
        group.connection.clone().unwrap_or_default().into_bytes(),
        group.seen.clone().unwrap_or_default().into_bytes(),
    ];
    for doubt in doubts {
        all.push(doubt.effect.as_uuid().as_bytes().to_vec());
        all.push(doubt.attempt.to_be_bytes().to_vec());
    }
    let parts: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    let bytes = digest("semel.doubts.1", &parts);
    bytes[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
