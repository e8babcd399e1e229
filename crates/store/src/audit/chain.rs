//! The chain of the audit record: acts are sealed in the order in which they are found committed.
//!
//! Acts commit in another order than their numbers, so an act has a place in the chain of its own. One
//! session seals at a time. What was sealed an hour before the latest seal is not looked at again: no
//! transaction that records an act lasts so long while servers seal, and while none does, no hour passes.

use std::collections::HashMap;

use semel_model::audit_chain::{ActTraces, CHAIN_START, SealedAct};

use super::list::{self, ActView};
use crate::cell::{EveryCell, ReadError};

/// The lock of the session that seals or removes: the letters of `audit`.
pub(super) const LOCK: i64 = 0x61_75_64_69_74;

pub(super) const ALONE: &str = "SELECT pg_try_advisory_xact_lock($1)";

pub(super) const UNSEALED: &str = "
    SELECT a.id, a.at, a.actor, a.action, a.subject, a.reason, a.run_id, NULL::bigint, NULL::bytea,
           a.token_id, a.address, a.old_digest, a.new_digest, a.namespace_id
      FROM audit a
     WHERE a.id > coalesce((SELECT c.audit_id
                              FROM audit_chain c
                             WHERE c.sealed_at < (SELECT max(sealed_at) FROM audit_chain) - interval '1 hour'
                             ORDER BY c.sealed_at DESC, c.audit_id DESC
                             LIMIT 1), 0)
       AND NOT EXISTS (SELECT 1 FROM audit_chain c WHERE c.namespace_id = a.namespace_id AND c.audit_id = a.id)
     ORDER BY a.id
     LIMIT $1";

pub(super) const LAST: &str = "
    SELECT n.id, c.position, c.digest
      FROM unnest($1::int4[]) AS n (id)
     CROSS JOIN LATERAL (SELECT position, digest
                           FROM audit_chain
                          WHERE namespace_id = n.id
                          ORDER BY position DESC
                          LIMIT 1) c";

pub(super) const SEAL: &str = "
    INSERT INTO audit_chain (namespace_id, position, audit_id, digest)
    SELECT t.namespace_id, t.position, t.audit_id, t.digest
      FROM unnest($1::int4[], $2::int8[], $3::int8[], $4::bytea[])
        AS t (namespace_id, position, audit_id, digest)";

pub(super) const CHAIN: &str = "
    SELECT a.id, a.at, a.actor, a.action, a.subject, a.reason, a.run_id, c.position, c.digest,
           a.token_id, a.address, a.old_digest, a.new_digest
      FROM audit_chain c
      JOIN audit a ON a.id = c.audit_id
     WHERE c.namespace_id = $1 AND c.position > $2
     ORDER BY c.position
     LIMIT $3";

/// How many acts one transaction seals.
const SEAL_MAX: i64 = 500;

/// Seals acts that are not sealed yet. Says how many, and whether there may be more.
pub async fn seal(cell: EveryCell<'_>) -> Result<(u64, bool), ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    if !tx.query_one(ALONE, &[&LOCK]).await?.get::<_, bool>(0) {
        return Ok((0, false));
    }
    let rows = tx.query(UNSEALED, &[&SEAL_MAX]).await?;
    if rows.is_empty() {
        return Ok((0, false));
    }
    let namespaces: Vec<i32> = rows.iter().map(|row| row.get(13)).collect();
    let mut each = namespaces.clone();
    each.sort_unstable();
    each.dedup();
    let last = tx.query(LAST, &[&each]).await?;
    let last = last
        .iter()
        .map(|row| (row.get(0), (row.get(1), digest(row.get(2)))));
    let mut last: HashMap<i32, (i64, [u8; 32])> = last.collect();
    let (mut positions, mut ids, mut digests) = (Vec::new(), Vec::new(), Vec::new());
    for (row, namespace_id) in rows.iter().zip(&namespaces) {
        let act = list::read(row);
        let (position, before) = last.entry(*namespace_id).or_insert((0, CHAIN_START));
        *position += 1;
        *before = sealed(&act, *position).seal(before);
        positions.push(*position);
        ids.push(act.id);
        digests.push(before.to_vec());
    }
    tx.execute(SEAL, &[&namespaces, &positions, &ids, &digests])
        .await?;
    tx.commit().await?;
    Ok((ids.len() as u64, ids.len() as i64 == SEAL_MAX))
}

/// The end of a namespace's chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainHead {
    /// Its namespace, short.
    pub namespace_id: i32,
    /// The place of the last act that is sealed.
    pub position: i64,
    /// The digest there.
    pub digest: [u8; 32],
}

/// The ends of the chains of some namespaces; none for one without a chain.
pub async fn list_heads(
    cell: EveryCell<'_>,
    namespaces: &[i32],
) -> Result<Vec<ChainHead>, ReadError> {
    let rows = cell.reader().await?.query(LAST, &[&namespaces]).await?;
    let heads = rows.iter().map(|row| ChainHead {
        namespace_id: row.get(0),
        position: row.get(1),
        digest: digest(row.get(2)),
    });
    Ok(heads.collect())
}

/// The acts of a namespace behind a place in its chain, in its order.
pub async fn list_chain(
    cell: EveryCell<'_>,
    namespace_id: i32,
    after: i64,
    limit: u16,
) -> Result<Vec<ActView>, ReadError> {
    let limit = i64::from(limit);
    let client = cell.reader().await?;
    let rows = client
        .query(CHAIN, &[&namespace_id, &after, &limit])
        .await?;
    Ok(rows.iter().map(list::read).collect())
}

pub(super) fn sealed(act: &ActView, position: i64) -> SealedAct<'_> {
    SealedAct {
        position,
        id: act.id,
        at: act.at,
        actor: &act.actor,
        action: &act.action,
        subject: &act.subject,
        reason: act.reason.as_deref(),
        run: act.run,
        traces: ActTraces {
            token: act.token,
            address: act.address.as_deref(),
            old_digest: act.old_digest.as_deref().map(digest),
            new_digest: act.new_digest.as_deref().map(digest),
        },
    }
}

/// The tables hold digests of this length only.
pub(super) fn digest(bytes: &[u8]) -> [u8; 32] {
    bytes.try_into().unwrap_or(CHAIN_START)
}
