//! Runs past their time that are archived before they are deleted.
//!
//! 1. [`list_going`] says what of some keys would be deleted now, and how it stands.
//! 2. The caller writes that to a file.
//! 3. [`delete_archived`] judges the keys again under their locks. Where all of them stand as they did, one
//!    commit makes the file theirs and deletes them; otherwise nothing happens, and the file is not needed.
//!
//! So a run is never in neither place. It is all or nothing because a file must not keep what is not deleted
//! with it: whoever erases such a run would find no way to the file.

use std::collections::HashMap;

use jiff::civil::Date;
use semel_model::{ClaimId, RunId, Span};
use tokio_postgres::IsolationLevel;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::claims::{self, ClaimRule, EndedKey, leaves_memory};
use super::judge::{KeyVerdict, judge};
use super::runs::{DELETE_MAX, TREE, delete};
use crate::archives::{self, ArchivedRun, FileContent, SpareFile};
use crate::cell::{EveryCell, ReadError};

/// How the runs of keys stand: what changes anything that a run shows changes this.
const STAMPS: &str = "
    SELECT k.claim_id, concat_ws(' ', runs.marks, lines.marks, ledger.marks, waited.marks)
      FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS k (claim_id, low, high)
     CROSS JOIN LATERAL (
           SELECT concat_ws(':', count(*), sum(hashtextextended(r.id::text || r.xmin::text, 0))) AS marks
             FROM runs r WHERE r.id BETWEEN k.low AND k.high) AS runs
     CROSS JOIN LATERAL (
           SELECT concat_ws(':', count(*), sum(j.seq)) AS marks
             FROM runs r
             JOIN journal j ON j.partition_date = r.partition_date AND j.run_id = r.id
            WHERE r.id BETWEEN k.low AND k.high) AS lines
     CROSS JOIN LATERAL (
           SELECT concat_ws(':', count(*), sum(hashtextextended(e.id::text || e.xmin::text, 0))) AS marks
             FROM (SELECT DISTINCT r.partition_date FROM runs r
                    WHERE r.id BETWEEN k.low AND k.high) AS d
             JOIN effects e ON e.partition_date = d.partition_date AND e.id BETWEEN k.low AND k.high
          ) AS ledger
     CROSS JOIN LATERAL (
           SELECT concat_ws(':', count(*), sum(hashtextextended(w.id::text || w.xmin::text, 0))) AS marks
             FROM runs r
             JOIN waits w ON w.run_id = r.id
            WHERE r.id BETWEEN k.low AND k.high) AS waited";

pub(crate) const STATEMENTS: &[&str] = &[STAMPS];

/// The most runs of one key, with their child runs, that are archived. What has more stays in the database: it would
/// take longer to read, and hold its locks for longer, than a server may take for one key.
const ARCHIVED_FAMILY_MAX: usize = 10_000;

/// The most runs of a file of several keys. A key with more has a file of its own.
const FILE_RUNS_MAX: usize = 500;

/// A key of which runs would be deleted now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoingKey {
    /// Its claim.
    pub claim: ClaimId,
    /// The namespace that owns it.
    pub namespace_id: i32,
    /// The runs that go, with their child runs that began, in order.
    pub runs: Vec<RunId>,
    /// How the key stands.
    stamp: String,
}

/// What of some keys would be deleted now.
#[derive(Debug, Default)]
pub struct GoingKeys {
    /// As many keys as one file takes, in the order of their claims.
    pub keys: Vec<GoingKey>,
    /// Keys that have too many runs to be archived.
    pub too_large: Vec<ClaimId>,
}

/// A key that goes, and everything that is deleted with it.
struct Going {
    key: GoingKey,
    tree: Vec<(Uuid, Option<Date>)>,
    ends: Option<EndedKey>,
}

/// What of some keys would be deleted now. A key goes whole.
pub async fn list_going(
    cell: EveryCell<'_>,
    claims: &[ClaimId],
    history: Span,
    rule: &ClaimRule,
) -> Result<GoingKeys, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let going = list_within(&tx, claims, history, rule).await;
    // Not by being dropped: whoever looks at the keys next would find them locked, and pass them over.
    tx.rollback().await?;
    going
}

async fn list_within(
    tx: &deadpool_postgres::Transaction<'_>,
    claims: &[ClaimId],
    history: Span,
    rule: &ClaimRule,
) -> Result<GoingKeys, ReadError> {
    let verdicts = judge(tx, claims, history, rule.clone()).await?;
    let (mut going, mut count, mut too_large) = (Vec::new(), 0, Vec::new());
    for verdict in verdicts.into_iter().filter(|it| !it.gone.is_empty()) {
        let claim = ClaimId::from_uuid(verdict.claim);
        let Some(one) = look(tx, verdict).await? else {
            too_large.push(claim);
            continue;
        };
        count += one.tree.len();
        if count > FILE_RUNS_MAX && !going.is_empty() {
            break;
        }
        going.push(one);
    }
    let keys = stamped(tx, going).await?;
    Ok(GoingKeys { keys, too_large })
}

/// Deletes the runs of keys that are in a file, where all of them stand as they did when it was begun. Gives how
/// many went; none where a key does not stand as it did.
pub async fn delete_archived(
    cell: EveryCell<'_>,
    keys: &[GoingKey],
    (file, content): (&SpareFile, &FileContent),
    history: Span,
    rule: &ClaimRule,
) -> Result<Option<u64>, ReadError> {
    let mut client = cell.reader().await?;
    // What changes after the stamps are compared refuses the commit.
    let tx = client.build_transaction();
    let tx = tx.isolation_level(IsolationLevel::RepeatableRead);
    let tx = tx.start().await?;
    let deleted = delete_in(&tx, keys, (file, content), history, rule).await;
    match deleted {
        Ok(Some(count)) => match tx.commit().await {
            Ok(()) => Ok(Some(count)),
            Err(error) if is_conflict(&error) => Ok(None),
            Err(error) => Err(error.into()),
        },
        Ok(None) => {
            tx.rollback().await?;
            Ok(None)
        }
        Err(ReadError::Database(error)) if is_conflict(&error) => Ok(None),
        Err(error) => {
            tx.rollback().await?;
            Err(error)
        }
    }
}

/// Whether another transaction changed what this one had read: nothing of this one has happened.
fn is_conflict(error: &tokio_postgres::Error) -> bool {
    let code = error.code();
    code == Some(&SqlState::T_R_SERIALIZATION_FAILURE)
        || code == Some(&SqlState::T_R_DEADLOCK_DETECTED)
}

async fn delete_in(
    tx: &deadpool_postgres::Transaction<'_>,
    keys: &[GoingKey],
    (file, content): (&SpareFile, &FileContent),
    history: Span,
    rule: &ClaimRule,
) -> Result<Option<u64>, ReadError> {
    let claims: Vec<ClaimId> = keys.iter().map(|key| key.claim).collect();
    let mut going = Vec::new();
    let mut remembered = Vec::new();
    for verdict in judge(tx, &claims, history, rule.clone()).await? {
        if leaves_memory(verdict.ends.as_ref()) {
            remembered.extend_from_slice(&verdict.gone);
        }
        let Some(one) = look(tx, verdict).await? else {
            return Ok(None);
        };
        going.push(one);
    }
    let trees: Vec<_> = going.iter().map(|one| one.tree.clone()).collect();
    let ended: Vec<EndedKey> = going.iter().filter_map(|one| one.ends).collect();
    if stamped(tx, going).await? != keys {
        return Ok(None);
    }
    let runs: Vec<ArchivedRun> = keys.iter().flat_map(archived).collect();
    if !archives::keep(tx, file, content, &runs).await? {
        return Ok(None);
    }
    let tree: Vec<(Uuid, Option<Date>)> = trees.into_iter().flatten().collect();
    claims::remember(tx, &remembered, rule).await?;
    let mut count = 0;
    for part in tree.chunks(DELETE_MAX) {
        count += delete(tx, part).await?;
    }
    claims::end(tx, &ended).await?;
    Ok(Some(count))
}

fn archived(key: &GoingKey) -> impl Iterator<Item = ArchivedRun> {
    key.runs.iter().map(|run| ArchivedRun {
        run: *run.as_uuid(),
        namespace_id: key.namespace_id,
        claim: *key.claim.as_uuid(),
    })
}

/// What goes with the runs of a key. None where that is too much.
async fn look(
    tx: &deadpool_postgres::Transaction<'_>,
    verdict: KeyVerdict,
) -> Result<Option<Going>, ReadError> {
    let limit = ARCHIVED_FAMILY_MAX as i64 + 1;
    let rows = tx.query(TREE, &[&verdict.gone, &limit]).await?;
    if rows.len() > ARCHIVED_FAMILY_MAX {
        return Ok(None);
    }
    let tree: Vec<(Uuid, Option<Date>)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let begun = tree.iter().filter(|(_, date)| date.is_some());
    let mut runs: Vec<RunId> = begun.map(|(id, _)| RunId::from_uuid(*id)).collect();
    runs.sort_unstable();
    Ok(Some(Going {
        key: GoingKey {
            claim: ClaimId::from_uuid(verdict.claim),
            namespace_id: verdict.namespace_id,
            runs,
            stamp: String::new(),
        },
        tree,
        ends: verdict.ends,
    }))
}

/// The keys with how they stand.
async fn stamped(
    tx: &deadpool_postgres::Transaction<'_>,
    going: Vec<Going>,
) -> Result<Vec<GoingKey>, ReadError> {
    let ids: Vec<Uuid> = going.iter().map(|one| *one.key.claim.as_uuid()).collect();
    let ranges = ids.iter().map(|id| RunId::from_uuid(*id).key_range());
    let (low, high): (Vec<Uuid>, Vec<Uuid>) = ranges.unzip();
    let values: [&(dyn ToSql + Sync); 3] = [&ids, &low, &high];
    let rows = tx.query(STAMPS, &values).await?;
    let stamps = rows.iter().map(|row| (row.get(0), row.get(1)));
    let mut stamps: HashMap<Uuid, String> = stamps.collect();
    let stamp = |one: Going| GoingKey {
        stamp: stamps.remove(one.key.claim.as_uuid()).unwrap_or_default(),
        ..one.key
    };
    Ok(going.into_iter().map(stamp).collect())
}
