//! Which runs of a key may be deleted, judged a key at a time, under the lock of its claim:
//!
//! - While a run of the key is active, or something of it is in doubt or waits for an operator, or a
//!   named effect does not know its outcome yet, nothing of the key goes. An effect under a business key
//!   that is in doubt keeps the key of the run that holds it, also where that run has ended: without its
//!   history the key's next run would have the same identity, and take the doubt for its own.
//! - While the key is held, its run stays: a repeat gets that run's answer.
//! - A run that another one followed goes once a later run has read what was done before it, so that
//!   no effect is forgotten that the next run of the key would repeat. One with items or branches
//!   stays until all of its key goes: each of those is read by the one that stands at its place later.
//! - With the last run of a key that is free goes its claim, unless a destination may remember its keys
//!   (`claims`).

use std::collections::BTreeMap;

use semel_model::{ClaimId, RunId, Span};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::claims::{ClaimRule, EndedKey};
use crate::cell::ReadError;

/// Whether a run of a key has not ended, something of it is in doubt or waits for an operator, or a named
/// effect does not know its outcome yet.
macro_rules! is_open {
    () => {
        "EXISTS (SELECT FROM queue q WHERE q.run_id BETWEEN k.low AND k.high)
           OR EXISTS (SELECT FROM attention a WHERE a.subject_id BETWEEN k.low AND k.high)
           OR EXISTS (SELECT FROM named_effect_notices n WHERE n.run_id BETWEEN k.low AND k.high)"
    };
}

/// A claim that another session has locked is looked at next time.
const LOCK: &str = "
    SELECT id, expires_at IS NULL, intent IS NOT NULL FROM claims
     WHERE id = ANY ($1)
     ORDER BY id
       FOR UPDATE SKIP LOCKED";

/// The runs of keys, oldest first: whether each is past its time, whether it read what was done before
/// it (the first run of a key, which has the identity of its claim, had nothing to read), and whether
/// anything of its key is open.
const JUDGE: &str = concat!(
    "
    SELECT r.claim_id, r.id, coalesce(r.ended_at < (SELECT moment()) - make_interval(secs => $4), false),
           r.id <> r.claim_id AND r.has_inherited,
           EXISTS (SELECT FROM child_runs c WHERE c.parent_id = r.id),
           ",
    is_open!(),
    "
           OR EXISTS (SELECT FROM named_effects n
                       WHERE n.state = 'in_doubt' AND n.holder_run BETWEEN k.low AND k.high), r.namespace_id
      FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS k (claim_id, low, high)
      JOIN runs r ON r.id BETWEEN k.low AND k.high AND r.claim_id = k.claim_id
     ORDER BY r.claim_id, r.accepted_at, r.id
       FOR UPDATE OF r"
);

pub(crate) const STATEMENTS: &[&str] = &[LOCK, JUDGE];

/// What of a key may go.
pub(super) struct KeyVerdict {
    pub(super) claim: Uuid,
    pub(super) namespace_id: i32,
    /// The runs that go, without their child runs.
    pub(super) gone: Vec<Uuid>,
    /// The key, where these are all of its runs.
    pub(super) ends: Option<EndedKey>,
}

/// Judges keys, and keeps their claims and runs locked. A key that another session has locked is left out.
pub(super) async fn judge(
    tx: &deadpool_postgres::Transaction<'_>,
    claims: &[ClaimId],
    history: Span,
    rule: ClaimRule,
) -> Result<Vec<KeyVerdict>, ReadError> {
    let ids: Vec<Uuid> = claims.iter().map(|claim| *claim.as_uuid()).collect();
    let locked = tx.query(LOCK, &[&ids]).await?;
    let locked = locked.iter().map(|row| {
        let (is_free, has_intents): (bool, bool) = (row.get(1), row.get(2));
        (row.get::<_, Uuid>(0), (is_free, has_intents || rule.counts))
    });
    let locked: BTreeMap<Uuid, (bool, bool)> = locked.collect();
    let ids: Vec<Uuid> = locked.keys().copied().collect();
    let ranges = ids.iter().map(|id| RunId::from_uuid(*id).key_range());
    let (low, high): (Vec<Uuid>, Vec<Uuid>) = ranges.unzip();
    let secs = history.as_secs_f64();
    let values: [&(dyn ToSql + Sync); 4] = [&ids, &low, &high, &secs];
    let mut keys: BTreeMap<Uuid, Vec<JudgedRun>> = BTreeMap::new();
    for row in tx.query(JUDGE, &values).await? {
        keys.entry(row.get(0)).or_default().push(JudgedRun {
            id: row.get(1),
            is_old: row.get(2),
            has_read: row.get(3),
            has_children: row.get(4),
            is_open: row.get(5),
            namespace_id: row.get(6),
        });
    }
    let verdict = |(claim, judged): (Uuid, Vec<JudgedRun>)| {
        let (is_free, counts) = locked[&claim];
        let (gone, is_whole) = which_go(&judged, is_free);
        KeyVerdict {
            claim,
            namespace_id: judged.first().map_or(0, |run| run.namespace_id),
            gone,
            ends: is_whole.then_some(EndedKey { claim, counts }),
        }
    };
    Ok(keys.into_iter().map(verdict).collect())
}

/// A run of a key.
struct JudgedRun {
    namespace_id: i32,
    id: Uuid,
    is_old: bool,
    has_read: bool,
    has_children: bool,
    is_open: bool,
}

/// Which runs of a key may go, and whether these are all.
fn which_go(runs: &[JudgedRun], is_free: bool) -> (Vec<Uuid>, bool) {
    if runs.iter().any(|run| run.is_open) {
        return (Vec::new(), false);
    }
    if is_free && runs.iter().all(|run| run.is_old) {
        return (runs.iter().map(|run| run.id).collect(), true);
    }
    let read = runs.iter().rposition(|run| run.has_read).unwrap_or(0);
    let gone = runs[..read].iter();
    let gone = gone.filter(|run| run.is_old && !run.has_children);
    (gone.map(|run| run.id).collect(), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: u128, is_old: bool, has_read: bool) -> JudgedRun {
        JudgedRun {
            namespace_id: 1,
            id: Uuid::from_u128(number),
            is_old,
            has_read,
            has_children: false,
            is_open: false,
        }
    }

    fn numbers((gone, is_whole): (Vec<Uuid>, bool)) -> (Vec<u128>, bool) {
        (gone.iter().map(Uuid::as_u128).collect(), is_whole)
    }

    #[test]
    fn the_run_that_answers_for_a_held_key_stays() {
        let runs = [run(1, true, false)];

        assert_eq!(numbers(which_go(&runs, false)), (vec![], false));
        assert_eq!(numbers(which_go(&runs, true)), (vec![1], true));
    }

    #[test]
    fn a_run_that_was_followed_goes_once_a_later_one_has_read_it() {
        let unread = [run(1, true, false), run(2, false, false)];
        let read = [
            run(1, true, false),
            run(2, true, false),
            run(3, false, true),
        ];
        let young = [
            run(1, true, false),
            run(2, false, true),
            run(3, false, true),
        ];

        assert_eq!(numbers(which_go(&unread, true)), (vec![], false));
        assert_eq!(numbers(which_go(&read, false)), (vec![1, 2], false));
        assert_eq!(numbers(which_go(&young, false)), (vec![1], false));
    }

    #[test]
    fn a_run_with_items_goes_with_its_whole_key_only() {
        let mut runs = [run(1, true, false), run(2, false, true)];
        runs[0].has_children = true;

        assert_eq!(numbers(which_go(&runs, true)), (vec![], false));
        runs[1].is_old = true;
        assert_eq!(numbers(which_go(&runs, true)), (vec![1, 2], true));
    }

    #[test]
    fn nothing_of_a_key_goes_while_anything_of_it_is_open() {
        let mut runs = [run(1, true, false), run(2, true, true)];
        runs[0].is_open = true;

        assert_eq!(numbers(which_go(&runs, true)), (vec![], false));
    }
}
