//! Rehearsals that nobody asks for: of live releases that are not proven.
//!
//! ```text
//! a connection or a live release changed ─┐
//! every so often, and after a start ──────┴▶ go through the live releases ─▶ rehearse one after the other
//! ```
//!
//! Nothing is queued: what is due follows from the tables, so that it outlasts a restart. A release is
//! rehearsed once with the same facts, whatever that shows; where it could not be played, a few times.
//! The id of each is computed, so that of two servers one rehearses. They stand back behind the
//! rehearsals that people of their namespace ask for, and have turns of their own among others (`turns`).
//! Each look also drops the remains of crashed servers' rehearsals.

use std::time::Duration;

use futures_util::future::BoxFuture;
use semel_model::id::digest;
use semel_store::flows::{self, ReleaseRow};
use semel_store::rehearsals;
use uuid::Uuid;

use crate::basis::{facts, subject};
use crate::error::RehearseError;
use crate::rehearse::{self, Selection};
use crate::service::{RehearsalRequest, Rehearsals};
use crate::turns::Group;

/// Who asks for them.
const ASKED_BY: &str = "semel";

/// How often a release is tried with the same facts where there is no report.
const TRIES_MAX: i64 = 3;

/// Which live releases are rehearsed in the background, and when they are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Background {
    /// Those that were never rehearsed too, and not only those that were proven once.
    pub never_rehearsed: bool,
    /// How often they are looked at where nothing is known to have changed.
    pub every: Duration,
}

/// Whether there is something left to do about a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Nothing,
    Something,
}

impl Rehearsals {
    /// Has the live releases looked at soon: something may have left one unproven.
    pub fn look_again(&self) {
        self.changed.notify_one();
    }

    /// Rehearses live releases that are not proven, for as long as it is awaited.
    pub fn keep_proving(&self, background: Background) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let mut settled = None;
            loop {
                tokio::select! {
                    () = self.changed.notified() => {}
                    () = tokio::time::sleep(background.every) => {}
                }
                if let Err(error) = rehearsals::drop_abandoned(self.engine.cell()).await {
                    tracing::warn!(%error, "cannot drop what crashed rehearsals left");
                }
                if let Err(error) = self.prove_live(background, &mut settled).await {
                    tracing::warn!(%error, "cannot rehearse live releases for a moment");
                }
            }
        })
    }

    /// Goes through the live releases once, unless nothing has changed since nothing was left.
    async fn prove_live(
        &self,
        background: Background,
        settled: &mut Option<i64>,
    ) -> Result<(), RehearseError> {
        let home = self.engine.cell().home();
        let version = flows::version(home).await?;
        if *settled == Some(version) {
            return Ok(());
        }
        let mut left = Left::Nothing;
        for release in flows::list_live(home).await? {
            match self.prove(background, &release).await {
                Ok(Left::Nothing) => {}
                Ok(Left::Something) => left = Left::Something,
                Err(RehearseError::Database(error)) => return Err(error.into()),
                Err(error) => {
                    left = Left::Something;
                    tracing::warn!(%error, flow = release.flow, "cannot rehearse a live release");
                }
            }
        }
        *settled = (left == Left::Nothing).then_some(version);
        Ok(())
    }

    /// Rehearses a live release, if that is due.
    async fn prove(
        &self,
        background: Background,
        release: &ReleaseRow,
    ) -> Result<Left, RehearseError> {
        let (cell, namespace_id) = (self.engine.cell(), release.namespace_id);
        let name = release.flow.as_str();
        let shown = rehearsals::list_latest(cell.home(), namespace_id, &[name]).await?;
        if shown.is_empty() && !background.never_rehearsed {
            return Ok(Left::Nothing);
        }
        let subject = subject(cell, namespace_id, name, &release.source).await?;
        let Ok(flow) = rehearse::check(&subject) else {
            return Ok(Left::Nothing);
        };
        let (digest, facts) = (flow.digest().to_string(), facts(&flow, &subject));
        let mut own = shown.iter().filter(|known| known.digest == digest);
        let judged = own.clone().any(|known| known.facts == facts);
        let concerns = background.never_rehearsed || own.any(|known| known.passed);
        if judged || !concerns || semel_flow::examples(&release.source).is_empty() {
            return Ok(Left::Nothing);
        }
        let (which, what) = ((namespace_id, name), (digest.as_str(), facts.as_str()));
        let tried = rehearsals::count_tried(cell.home(), which, what, ASKED_BY).await?;
        if tried.times >= TRIES_MAX && !tried.under_way {
            return Ok(Left::Nothing);
        }
        if !tried.under_way && self.turns.has_none_of(namespace_id) {
            let id = id_of(which, what, tried.times);
            self.rehearse_live(id, release).await?;
        }
        Ok(Left::Something)
    }

    async fn rehearse_live(&self, id: Uuid, release: &ReleaseRow) -> Result<(), RehearseError> {
        let request = RehearsalRequest {
            id,
            namespace_id: release.namespace_id,
            asked_by: ASKED_BY.to_owned(),
            file: release.flow.clone(),
            source: release.source.clone(),
            selection: Selection::default(),
        };
        let begun = self.begin(request, Group::Background);
        if let Some(running) = begun.await? {
            let (flow, number) = (release.flow.as_str(), release.number);
            tracing::info!(flow, release = number, rehearsal = %id, "rehearsing a live release that is not proven");
            // A rehearsal that panics has no report, and is tried again.
            let _ = running.await;
        }
        Ok(())
    }
}

/// The id of a rehearsal in the background: two servers that see the same come to the same one.
fn id_of((namespace_id, flow): (i32, &str), (release, facts): (&str, &str), times: i64) -> Uuid {
    let (namespace_id, times) = (namespace_id.to_be_bytes(), times.to_be_bytes());
    let parts: [&[u8]; 5] = [
        &namespace_id,
        flow.as_bytes(),
        release.as_bytes(),
        facts.as_bytes(),
        &times,
    ];
    Uuid::from_bytes(digest("rehearsal in the background", &parts))
}
