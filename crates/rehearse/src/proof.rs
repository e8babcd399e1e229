//! Proofs: whether a release may go live, by what its latest whole rehearsal showed.

use std::collections::BTreeSet;
use std::fmt;

use futures_util::future::BoxFuture;
use semel_engine::{Engine, FlowError};
use semel_model::FlowName;
use semel_store::flows::{self, AskedProof};
use semel_store::rehearsals::{self, Rehearsed};
use semel_store::{Cell, ReadError};

use crate::basis::{Surroundings, facts, used};
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

/// A release whose proof is asked for.
#[derive(Clone, Copy, Debug)]
pub struct ReleaseText<'a> {
    /// Its flow.
    pub flow: &'a str,
    /// Its digest.
    pub digest: &'a str,
    /// Its text.
    pub source: &'a str,
}

/// Whether a release of a flow is proven.
///
/// # Errors
///
/// Where the database does not answer.
pub async fn proof_of(
    cell: &Cell,
    namespace_id: i32,
    release: ReleaseText<'_>,
) -> Result<Proof, ReadError> {
    let proofs = proofs_of(cell, namespace_id, &[release]).await?;
    Ok(proofs.first().copied().unwrap_or(Proof::NotRehearsed))
}

/// Whether each of some releases is proven, in their order: with as many statements for all of them
/// as for one.
///
/// # Errors
///
/// Where the database does not answer.
pub fn proofs_of<'a>(
    cell: &'a Cell,
    namespace_id: i32,
    releases: &'a [ReleaseText<'a>],
) -> BoxFuture<'a, Result<Vec<Proof>, ReadError>> {
    Box::pin(async move {
        let flows: BTreeSet<&str> = releases.iter().map(|release| release.flow).collect();
        let flows: Vec<&str> = flows.into_iter().collect();
        let shown = rehearsals::list_latest(cell.home(), namespace_id, &flows).await?;
        let is_of = |known: &Rehearsed, release: &ReleaseText<'_>| {
            known.digest == release.digest && known.flow == release.flow
        };
        let is_shown = |release: &ReleaseText<'_>| shown.iter().any(|known| is_of(known, release));
        let sources: Vec<&str> = releases
            .iter()
            .filter(|release| is_shown(release))
            .map(|release| release.source)
            .collect();
        if sources.is_empty() {
            return Ok(vec![Proof::NotRehearsed; releases.len()]);
        }
        let surroundings = Surroundings::read(cell, namespace_id, sources).await?;
        let mut proofs = Vec::with_capacity(releases.len());
        for release in releases {
            let own = shown.iter().filter(|known| is_of(known, release));
            let own: Vec<Rehearsed> = own.cloned().collect();
            proofs.push(match own.is_empty() {
                true => Proof::NotRehearsed,
                false => judge(&own, facts_now(&surroundings, release.source).as_deref()),
            });
            // Each is a check of a text: others have their turn in between.
            tokio::task::yield_now().await;
        }
        Ok(proofs)
    })
}

/// What rehearsals of a release prove with the facts as they are.
fn judge(shown: &[Rehearsed], now: Option<&str>) -> Proof {
    let as_now = shown.iter().find(|known| Some(known.facts.as_str()) == now);
    match as_now {
        Some(known) if known.passed => Proof::Proven,
        Some(_) => Proof::Violated,
        None if shown.iter().any(|known| known.passed) => Proof::Changed,
        None if shown.is_empty() => Proof::NotRehearsed,
        None => Proof::Violated,
    }
}

/// A live release that was proven, until a connection changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnprovenRelease {
    /// Its flow.
    pub flow: String,
    /// Its number.
    pub number: i32,
}

/// Lists the live releases of a namespace that use a connection, themselves or by the flows that
/// they call, and that were proven before connections changed.
///
/// # Errors
///
/// Where the database does not answer.
pub fn list_unproven<'a>(
    cell: &'a Cell,
    namespace_id: i32,
    connection: &'a str,
) -> BoxFuture<'a, Result<Vec<UnprovenRelease>, ReadError>> {
    Box::pin(async move {
        let mut unproven = Vec::new();
        let live = flows::list_live_of(cell.home(), namespace_id).await?;
        let names: Vec<&str> = live.iter().map(|release| release.flow.as_str()).collect();
        let shown = rehearsals::list_latest(cell.home(), namespace_id, &names).await?;
        let sources: Vec<&str> = live.iter().map(|release| release.source.as_str()).collect();
        let surroundings = Surroundings::read(cell, namespace_id, sources).await?;
        for release in &live {
            tokio::task::yield_now().await;
            let subject = surroundings.subject(&release.flow, &release.source);
            let Some(flow) = rehearse::check(&subject).ok() else {
                continue;
            };
            if !used(&flow, &subject).contains(connection) {
                continue;
            }
            let digest = flow.digest().to_string();
            let own = shown.iter();
            let own = own.filter(|known| known.flow == release.flow && known.digest == digest);
            let own: Vec<Rehearsed> = own.cloned().collect();
            if judge(&own, Some(&facts(&flow, &subject))) == Proof::Changed {
                let (flow, number) = (release.flow.clone(), release.number);
                unproven.push(UnprovenRelease { flow, number });
            }
        }
        Ok(unproven)
    })
}

/// The facts that a rehearsal of a text would rest on now; nothing where its check fails.
fn facts_now(surroundings: &Surroundings, source: &str) -> Option<String> {
    let subject = surroundings.subject("release", source);
    let flow = rehearse::check(&subject).ok()?;
    Some(facts(&flow, &subject))
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
            let source = release.source.as_str();
            let surroundings = Surroundings::read(cell, namespace_id, [source]).await?;
            let facts = facts_now(&surroundings, source);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(facts: &str, passed: bool) -> Rehearsed {
        Rehearsed {
            flow: "f".to_owned(),
            digest: "d".to_owned(),
            facts: facts.to_owned(),
            passed,
            ended_at: None,
        }
    }

    #[test]
    fn what_counts_is_the_rehearsal_with_the_facts_as_they_are() {
        let passed = shown("a", true);
        let violated = shown("b", false);

        let both = [passed.clone(), violated.clone()];
        assert_eq!(judge(&both, Some("a")), Proof::Proven);
        assert_eq!(judge(&both, Some("b")), Proof::Violated);
        assert_eq!(judge(&both, Some("c")), Proof::Changed);
        assert_eq!(judge(&both, None), Proof::Changed, "the check fails now");
        assert_eq!(judge(&[violated], Some("c")), Proof::Violated);
        assert_eq!(judge(&[], Some("a")), Proof::NotRehearsed);
    }
}
