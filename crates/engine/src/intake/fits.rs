//! Whether an input fits the flow's schema: asked on every way in, before anything is accepted.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use semel_model::{ClaimId, Key, KeySpace};
use semel_store::{claims, refused_deliveries};
use serde_json::Value;

use super::IntakeError;
use crate::catalogue::Release;
use crate::engine::{Engine, Inner};

/// How many refusals of a flow are written down within [`WINDOW`]: a storm of senders who send
/// nonsense costs a few rows. All are counted.
const REFUSALS_MAX: u32 = 60;

/// See [`REFUSALS_MAX`].
const WINDOW: SignedDuration = SignedDuration::from_secs(60);

/// How many flows are looked after; beyond that the oldest windows are forgotten.
const FLOWS_MAX: usize = 10_000;

impl Engine {
    /// Refuses an input that does not fit the flow's schema, unless its key is known.
    ///
    /// A known key is a repeat, and a repeat gets the first answer, whatever a later release asks
    /// of inputs. A new one has no claim, so that the key stays free for an input that fits.
    pub(crate) async fn must_fit(
        &self,
        release: &Release,
        space: KeySpace,
        key: &Key,
        input: &Value,
    ) -> Result<(), IntakeError> {
        let schema = release.flow.input_schema.as_ref();
        let Some(problem) = schema.and_then(|schema| schema.misfit(input)) else {
            return Ok(());
        };
        let inner = &self.inner;
        let claim = ClaimId::derive_in(space, &release.namespace, &release.flow.name, key);
        let known = claims::find(&inner.cell, claim).await;
        if known
            .map_err(|error| IntakeError::Unavailable(error.to_string()))?
            .is_some()
        {
            return Ok(());
        }
        let error = IntakeError::InputInvalid(problem.clone());
        note_refusal(inner, release, &error, &problem).await;
        Err(error)
    }
}

/// Counts a refusal, and writes it down unless too many of this flow were just now.
pub(super) async fn note_refusal(
    inner: &Inner,
    release: &Release,
    error: &IntakeError,
    reason: &str,
) {
    inner.metrics.refused.add_one();
    let flow = release.flow.name.as_str();
    let id = release.namespace_id;
    if !inner.refusing.admits(id, flow, inner.clock.now()) {
        return;
    }
    // A zero byte may come from the payload, and is no text for the database.
    let reason = reason.replace('\0', "\u{fffd}");
    let kept = refused_deliveries::append(&inner.cell, id, flow, error.code(), &reason).await;
    if let Err(error) = kept {
        tracing::warn!(%error, flow, "a refusal could not be written down");
    }
}

/// How many refusals were written down lately, by flow.
#[derive(Default)]
pub(crate) struct Refusing {
    flows: Mutex<HashMap<(i32, String), (Timestamp, u32)>>,
}

impl Refusing {
    /// Whether one more is written down.
    fn admits(&self, namespace_id: i32, flow: &str, now: Timestamp) -> bool {
        let mut flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        if flows.len() >= FLOWS_MAX {
            flows.retain(|_, (since, _)| now.duration_since(*since) < WINDOW);
        }
        let entry = flows.entry((namespace_id, flow.to_owned()));
        let (since, count) = entry.or_insert((now, 0));
        if now.duration_since(*since) >= WINDOW {
            (*since, *count) = (now, 0);
        }
        *count = count.saturating_add(1);
        *count <= REFUSALS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_of_refusals_costs_a_few_rows_a_minute() {
        let refusing = Refusing::default();
        let at = |secs: i64| Timestamp::from_second(secs).unwrap();

        let first = (0..1_000).filter(|_| refusing.admits(1, "orders", at(0)));
        assert_eq!(first.count(), 60);
        assert!(refusing.admits(1, "others", at(0)));
        assert!(!refusing.admits(1, "orders", at(59)));
        assert!(refusing.admits(1, "orders", at(60)));
    }
}
