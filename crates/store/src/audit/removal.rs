//! Retention of the audit record: the oldest acts of a chain are removed together, and their seal stays.
//!
//! What is left of a chain follows the digest of the stretch that was removed, and that stretch the one before, so
//! the chain still shows every change. The last act of a chain is never removed: the next one follows it.

use jiff::Timestamp;
use semel_model::Span;
use semel_model::audit_chain::{ChainBreak, ChainEnd, RemovedActs};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::chain::{self, ALONE, LOCK};
use super::list;
use crate::cell::{EveryCell, ReadError};

/// Acts are kept for this long at least; the database itself refuses to remove younger ones, by its own clock.
pub const AUDIT_KEEP_MIN: Span = Span::from_const_secs(30 * 86_400);

/// The most acts of one stretch.
const STRETCH_MAX: usize = 1_000;

pub(super) const NEXT: &str = "
    SELECT namespace_id FROM audit_chain WHERE namespace_id > $1 ORDER BY namespace_id, position LIMIT 1";

pub(super) const LAST: &str = "
    SELECT last_position, digest
      FROM audit_removed
     WHERE namespace_id = $1
     ORDER BY last_position DESC
     LIMIT 1";

/// Whole days, so that a chain has few stretches.
macro_rules! is_old {
    () => {
        "a.at < date_trunc('day', (SELECT moment()) - make_interval(secs => $2), 'UTC')"
    };
}

/// Whether the first act of a chain is past its time, which is all that is read where none is.
pub(super) const FIRST: &str = concat!(
    "
    SELECT ",
    is_old!(),
    "
      FROM audit_chain c
      JOIN audit a ON a.id = c.audit_id
     WHERE c.namespace_id = $1
     ORDER BY c.position
     LIMIT 1"
);

pub(super) const OLD: &str = concat!(
    "
    SELECT a.id, a.at, a.actor, a.action, a.subject, a.reason, a.run_id, c.position, c.digest,
           a.token_id, a.address, a.old_digest, a.new_digest, ",
    is_old!(),
    "
      FROM audit_chain c
      JOIN audit a ON a.id = c.audit_id
     WHERE c.namespace_id = $1 AND c.position > $3
     ORDER BY c.position
     LIMIT $4"
);

/// A function, because Semel's role may not delete from these tables if they belong to another role. The
/// time is passed in: the function runs with that role's rights, and must call nothing that Semel's role owns.
pub(super) const REMOVE: &str =
    "SELECT remove_audit_stretch($1, $2, $3, $4, $5, $6, $7, (SELECT moment()))";

pub(super) const LIST: &str = "
    SELECT first_position, last_position, digest_before, digest, latest_at, removed_at
      FROM audit_removed
     WHERE namespace_id = $1 AND last_position > $2
     ORDER BY last_position
     LIMIT $3";

/// A stretch of a chain whose acts were removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedView {
    /// Where it was, and its seal.
    pub acts: RemovedActs,
    /// When the latest of its acts was done.
    pub latest_at: Timestamp,
    /// When it was removed.
    pub removed_at: Timestamp,
}

/// The next namespace with a chain, in the order of their numbers.
pub async fn find_chain(cell: EveryCell<'_>, after: i32) -> Result<Option<i32>, ReadError> {
    let found = cell.reader().await?.query_opt(NEXT, &[&after]).await?;
    Ok(found.map(|row| row.get(0)))
}

/// What became of the oldest acts of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// None of them is past its time, or another session is at work.
    Nothing,
    /// So many were removed; more may be left.
    Removed(u64),
    /// The chain does not hold: what shows that stays.
    Broken(ChainBreak),
}

/// Removes the oldest acts of a namespace, where they are past their time and each is as it was sealed.
pub async fn remove_old(
    cell: EveryCell<'_>,
    namespace_id: i32,
    keep: Span,
) -> Result<Removal, ReadError> {
    let secs = keep.max(AUDIT_KEEP_MIN).as_secs_f64();
    let mut client = cell.reader().await?;
    let first = client.query_opt(FIRST, &[&namespace_id, &secs]).await?;
    if !first.is_some_and(|row| row.get(0)) {
        return Ok(Removal::Nothing);
    }
    let most = i64::try_from(STRETCH_MAX + 1).unwrap_or(i64::MAX);
    let tx = client.transaction().await?;
    if !tx.query_one(ALONE, &[&LOCK]).await?.get::<_, bool>(0) {
        return Ok(Removal::Nothing);
    }
    let before = tx.query_opt(LAST, &[&namespace_id]).await?;
    let before = before.map_or(ChainEnd::START, |row| ChainEnd {
        position: row.get(0),
        digest: chain::digest(row.get(1)),
    });
    let values: [&(dyn ToSql + Sync); 4] = [&namespace_id, &secs, &before.position, &most];
    let rows = tx.query(OLD, &values).await?;
    // The last row stays: either more follow, or it is the last act of the chain.
    let stays = rows.len().saturating_sub(1);
    let (mut end, mut ids, mut latest) = (before, Vec::new(), Timestamp::UNIX_EPOCH);
    for row in rows[..stays].iter().take_while(|row| row.get(13)) {
        let act = list::read(row);
        let (position, digest) = act.seal.clone().unwrap_or_default();
        if let Err(broken) = end.follow(&chain::sealed(&act, position), &digest) {
            return Ok(Removal::Broken(broken));
        }
        ids.push(act.id);
        latest = latest.max(act.at);
    }
    if ids.is_empty() {
        return Ok(Removal::Nothing);
    }
    let first = before.next();
    let (digest_before, digest) = (&before.digest[..], &end.digest[..]);
    let values: [&(dyn ToSql + Sync); 7] = [
        &namespace_id,
        &first,
        &end.position,
        &digest_before,
        &digest,
        &latest,
        &ids,
    ];
    tx.execute(REMOVE, &values).await?;
    tx.commit().await?;
    Ok(Removal::Removed(ids.len() as u64))
}

/// The removed stretches of a namespace that end behind a place in its chain, in its order.
pub async fn list_removed(
    cell: EveryCell<'_>,
    namespace_id: i32,
    after: i64,
    limit: u16,
) -> Result<Vec<RemovedView>, ReadError> {
    let limit = i64::from(limit);
    let client = cell.reader().await?;
    let rows = client.query(LIST, &[&namespace_id, &after, &limit]).await?;
    Ok(rows.iter().map(read).collect())
}

fn read(row: &Row) -> RemovedView {
    RemovedView {
        acts: RemovedActs {
            first: row.get(0),
            last: row.get(1),
            digest_before: chain::digest(row.get(2)),
            digest: chain::digest(row.get(3)),
        },
        latest_at: row.get(4),
        removed_at: row.get(5),
    }
}
