//! What time does to named effects: leases that are over, and what is remembered no longer.

use jiff::Timestamp;
use semel_model::{Key, NamedEffectId, Span};
use tokio_postgres::Row;

use crate::alerts::raise;
use crate::attention::named::named_lapsed;
use crate::cell::{EveryCell, ReadError};

/// What another statement has locked is passed over: a heartbeat or a report may save it.
const LAPSE: &str = concat!(
    "/* commits alone: named effect lapse */
    WITH over AS (
        SELECT id
          FROM named_effects
         WHERE lease_until <= (SELECT moment())
         ORDER BY lease_until
         LIMIT $1
           FOR UPDATE SKIP LOCKED),
    lapsed AS (
    UPDATE named_effects n
       SET state = 'in_doubt', lease_until = NULL,
           fault = json_build_object('code', $2::text,
                                     'message', 'the process that held the key was lost')
     WHERE n.id = ANY (ARRAY(SELECT id FROM over)) AND n.lease_until <= (SELECT moment())
 RETURNING n.id, n.namespace_id, n.scope, n.key, n.holder_name, n.heartbeat_at, n.begun_at)",
    named_lapsed!(),
    ",
    raised AS (
        ",
    raise!(
        "SELECT l.namespace_id, 'doubt' AS kind, '' AS flow, '' AS connection, 'once' AS step,
               NULL::uuid AS run_id, 1 AS count
          FROM lapsed l"
    ),
    ")
    SELECT id, scope, key, holder_name, heartbeat_at FROM lapsed"
);

/// When a name goes whose generation was used: a destination may remember a key for longer than Semel
/// remembers the effect, and a name that began again at generation 0 would have its new effect taken for
/// the old one. A destination that honours keys forgets them; the marker of a `db` step, or a program
/// that was given the key, need not.
macro_rules! remembered {
    () => {
        "CASE WHEN n.endless THEN 'infinity'::timestamptz
                             ELSE (SELECT moment()) + interval '366 days' END"
    };
}
pub(super) use remembered;

/// What is expired becomes absent, one generation on, and keeps nothing of what it was but that.
const FORGET: &str = concat!(
    "/* commits alone: named effect expiry */
    WITH over AS (
        SELECT id
          FROM named_effects
         WHERE expires_at <= (SELECT moment()) AND state IN ('done', 'failed')
         ORDER BY expires_at
         LIMIT $1
           FOR UPDATE SKIP LOCKED)
    UPDATE named_effects n
       SET state = 'absent', generation = n.generation + 1, fingerprint = NULL, settled_at = NULL,
           settled_by = NULL, result = NULL, external_id = NULL, status = NULL, fault = NULL,
           note = NULL, expires_at = ",
    remembered!(),
    "
     WHERE n.id = ANY (ARRAY(SELECT id FROM over)) AND n.state IN ('done', 'failed')"
);

/// What nothing was done under, so that its first key is as good as new, and what no destination remembers.
const REMOVE: &str = "/* commits alone: named effect removal */
    WITH over AS (
        SELECT id
          FROM named_effects
         WHERE expires_at <= (SELECT moment()) - make_interval(secs => $2) AND state = 'absent'
         ORDER BY expires_at
         LIMIT $1
           FOR UPDATE SKIP LOCKED)
    DELETE FROM named_effects n
     WHERE n.id = ANY (ARRAY(SELECT id FROM over)) AND n.state = 'absent'";

pub(crate) const STATEMENTS: &[&str] = &[LAPSE, FORGET, REMOVE];

/// The most rows of one pass.
const BATCH_MAX: i64 = 1_000;

/// How long a name is kept whose first hold was freed, in seconds: 30 days.
pub(super) const ABSENT_SECS: f64 = 30.0 * 86_400.0;

/// How long the generation of a name is kept, in seconds, where no connection remembers keys for longer: 366
/// days, as `remembered` says.
const REMEMBERED_SECS: f64 = 366.0 * 86_400.0;

/// The code of the fault of a script that was lost.
pub(super) const LEASE_LOST: &str = "lease-lost";

/// A named effect whose lease was over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LapsedEffect {
    /// The effect.
    pub id: NamedEffectId,
    /// Its scope.
    pub scope: String,
    /// Its key, as text that people read.
    pub key: String,
    /// Host and process that held it.
    pub holder: String,
    /// When that was last heard of.
    pub heartbeat_at: Timestamp,
}

/// Puts effects in doubt whose lease is over, the longest over first, and lists them.
pub async fn lapse(cell: EveryCell<'_>) -> Result<Vec<LapsedEffect>, ReadError> {
    let rows = cell
        .reader()
        .await?
        .query(LAPSE, &[&BATCH_MAX, &LEASE_LOST])
        .await?;
    Ok(rows.iter().map(read_lapsed).collect())
}

/// Makes absent what is expired, and removes names under which nothing was done for long, or of which no
/// destination remembers a key: `longest` is the longest that a connection says. Says how many rows changed,
/// and whether there may be more.
pub async fn expire(cell: EveryCell<'_>, longest: Span) -> Result<(u64, bool), ReadError> {
    let longer = (longest.as_secs_f64() - REMEMBERED_SECS).max(0.0);
    let client = cell.reader().await?;
    let forgotten = client.execute(FORGET, &[&BATCH_MAX]).await?;
    let removed = client.execute(REMOVE, &[&BATCH_MAX, &longer]).await?;
    let more = forgotten.max(removed) == BATCH_MAX.unsigned_abs();
    Ok((forgotten + removed, more))
}

fn read_lapsed(row: &Row) -> LapsedEffect {
    let key = Key::new(row.get::<_, Vec<u8>>(2)).map(|key| key.text());
    LapsedEffect {
        id: NamedEffectId::from_uuid(row.get(0)),
        scope: row.get(1),
        key: key.unwrap_or_default(),
        holder: row.get::<_, Option<String>>(3).unwrap_or_default(),
        heartbeat_at: row.get(4),
    }
}
