//! Proofs: whether a release may go live, by what its latest whole rehearsal showed.

use std::fmt;

use futures_util::future::BoxFuture;
use semel_engine::{Engine, FlowError};
use semel_model::FlowName;
use semel_store::flows::{self, AskedProof};
use semel_store::{Cell, ReadError, rehearsals};

use crate::basis::{facts, subject};
use crate::rehearse;

/// How often a promotion is tried while the configuration changes.
const TRIES_MAX: u32 = 5;

/// Whether a release is proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Its rehearsal passed, with the connections as they are.
    Proven,
    /// It was not rehearsed as a whole.
    NotRehearsed,
    /// Its rehearsal shows violations.
    Violated,
    /// It passed, and a connection or a called flow has changed since.
    Changed,
}

impl Proof {
    /// The words for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Proven => "proven",
            Self::NotRehearsed => "not proven: not rehearsed",
            Self::Violated => "not proven: its rehearsal failed",
            Self::Changed => "not proven: connection changed",
        }
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a release of a flow is proven.
///
/// # Errors
///
/// Where the database does not answer.
pub fn proof_of<'a>(
    cell: &'a Cell,
    namespace_id: i32,
    flow: &'a str,
    (digest, source): (&'a str, &'a str),
) -> BoxFuture<'a, Result<Proof, ReadError>> {
    Box::pin(async move {
        let latest = rehearsals::list_latest(cell.home(), namespace_id, flow).await?;
        let Some(known) = latest.iter().find(|known| known.digest == digest) else {
            return Ok(Proof::NotRehearsed);
        };
        if !known.passed {
            return Ok(Proof::Violated);
        }
        let now = current_facts(cell, namespace_id, source).await?;
        Ok(match now.as_ref() == Some(&known.facts) {
            true => Proof::Proven,
            false => Proof::Changed,
        })
    })
}

async fn current_facts(
    cell: &Cell,
    namespace_id: i32,
    source: &str,
) -> Result<Option<String>, ReadError> {
    let subject = subject(cell, namespace_id, "release", source).await?;
    let flow = rehearse::check(&subject).ok();
    Ok(flow.map(|flow| facts(&flow, &subject)))
}

/// Makes a release live that a rehearsal has proven, or that was live before.
///
/// # Errors
///
/// Where there is no such release, or no rehearsal has proven it.
pub fn promote<'a>(
    engine: &'a Engine,
    (namespace_id, flow, number): (i32, &'a FlowName, i32),
    actor: &'a str,
) -> BoxFuture<'a, Result<(), FlowError>> {
    Box::pin(async move {
        let cell = engine.cell();
        for _ in 0..TRIES_MAX {
            let version = flows::version(cell.home()).await?;
            let releases = flows::list_releases(cell.home(), namespace_id, flow.as_str()).await?;
            let release = releases.iter().find(|release| release.number == number);
            let release = release.ok_or(FlowError::UnknownRelease)?;
            let facts = current_facts(cell, namespace_id, &release.source).await?;
            let asked = AskedProof {
                facts: facts.as_deref().unwrap_or_default(),
                version,
            };
            let which = (namespace_id, flow, number);
            if engine.promote_proven(which, &asked, actor).await? {
                return Ok(());
            }
        }
        Err(FlowError::Unavailable(
            "the configuration changes all the time: try again".to_owned(),
        ))
    })
}
