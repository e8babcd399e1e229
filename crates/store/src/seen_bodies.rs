//! The `seen_bodies` table: signed bodies, and the key under which each came first.
//!
//! A body is recorded before its delivery is accepted, in a commit of its own. So of two deliveries
//! of one body under two keys only one is accepted, whichever order their commits take; and one
//! that was recorded and then lost is recognised by its key when it comes again. A body whose delivery
//! started nothing is recorded too, if an unsigned part decided that.

use semel_model::{ClaimId, InSlot, Slot, Span};
use uuid::Uuid;

use crate::cell::{EveryCell, ReadError, SlotCell};

// Crosses slots (V8): the table has no slot, though its rows are named by a digest that has one, and a body is
// forgotten beside the claim of its key. Before a second cell, the slot of the digest stands first in the primary
// key, and the claim is looked up in its own cell.

/// The first key stays. Its own repeats move the expiry on. A delivery that started nothing ($6) gives its place to
/// one with the same body and unsigned parts: a trigger that was changed to take it then does.
const REMEMBER: &str = "
    WITH made AS (
        INSERT INTO seen_bodies AS s (namespace_id, flow, digest, claim_id, expires_at)
        VALUES ($1, $2, $3, $4,
                date_trunc('minute', moment() + make_interval(secs => $5::float8 + 120)))
            ON CONFLICT (namespace_id, flow, digest) DO UPDATE
           SET claim_id = EXCLUDED.claim_id, expires_at = EXCLUDED.expires_at
         WHERE (s.claim_id = EXCLUDED.claim_id AND s.expires_at < EXCLUDED.expires_at)
            OR s.claim_id = $6
     RETURNING claim_id)
    SELECT claim_id FROM made
     UNION ALL
    SELECT claim_id FROM seen_bodies WHERE namespace_id = $1 AND flow = $2 AND digest = $3
     LIMIT 1";

/// A body stays until its key has expired, whose time moves on while its run has not ended, and with
/// each further run.
const FORGET: &str = "
    WITH present AS MATERIALIZED (SELECT moment() AS now),
    old AS MATERIALIZED (
        SELECT s.namespace_id, s.flow, s.digest, c.expires_at AS key_expires_at
          FROM seen_bodies s
          LEFT JOIN claims c ON c.id = s.claim_id AND c.expires_at IS NOT NULL
         WHERE s.expires_at < (SELECT moment())
         ORDER BY s.expires_at
         LIMIT $1
           FOR UPDATE OF s SKIP LOCKED),
    kept AS (
        UPDATE seen_bodies s
           SET expires_at = date_trunc('minute', greatest(o.key_expires_at, p.now) + interval '2 minutes')
          FROM old o, present p
         WHERE s.namespace_id = o.namespace_id AND s.flow = o.flow AND s.digest = o.digest
           AND o.key_expires_at IS NOT NULL),
    forgotten AS (
        DELETE FROM seen_bodies s
         USING old o
         WHERE s.namespace_id = o.namespace_id AND s.flow = o.flow AND s.digest = o.digest
           AND o.key_expires_at IS NULL)
    SELECT count(*) FROM old";

pub(crate) const STATEMENTS: &[&str] = &[REMEMBER, FORGET];

/// A signed body on its way to a flow.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    /// The namespace that owns it.
    pub namespace_id: i32,
    /// The flow.
    pub flow: &'a str,
    /// SHA-256 of its bytes.
    pub digest: &'a [u8; 32],
    /// The key under which it comes now; if it starts nothing, the same as `passed_over`.
    pub claim: ClaimId,
    /// The stand-in for a key that a delivery with the same unsigned parts has if it starts nothing.
    pub passed_over: Option<ClaimId>,
    /// How long the flow remembers keys.
    pub keep: Span,
}

impl InSlot for Body<'_> {
    fn slot(&self) -> Slot {
        Slot::of_digest(self.digest)
    }
}

/// Remembers a body, unless it came before, and says under which key it came first. Nothing if
/// another delivery of it was remembered in the same moment: ask again.
pub async fn remember(cell: SlotCell<'_>, body: Body<'_>) -> Result<Option<ClaimId>, ReadError> {
    let keep_secs = body.keep.as_secs_f64();
    let digest = body.digest.as_slice();
    let claim = body.claim.as_uuid();
    let passed_over = body.passed_over.as_ref().map(ClaimId::as_uuid);
    let client = cell.reader().await?;
    let row = client
        .query_opt(
            REMEMBER,
            &[
                &body.namespace_id,
                &body.flow,
                &digest,
                claim,
                &keep_secs,
                &passed_over,
            ],
        )
        .await?;
    Ok(row.map(|row| ClaimId::from_uuid(row.get::<_, Uuid>(0))))
}

/// Forgets some bodies whose time is over and whose key is free, and says how many it looked at.
pub async fn forget(cell: EveryCell<'_>, most: i64) -> Result<u64, ReadError> {
    let row = cell.reader().await?.query_one(FORGET, &[&most]).await?;
    Ok(row.get::<_, i64>(0).unsigned_abs())
}
