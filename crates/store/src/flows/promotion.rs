//! Promotion: which release of a flow new runs start on, and what proves that it may.

use deadpool_postgres::Transaction;
use semel_model::FlowName;
use tokio_postgres::types::ToSql;

use super::{BUMP, LOCK_FLOW, read_digest};
use crate::audit::{self, AuditEntry};
use crate::cell::{HomeCell, ReadError};

/// Promoting the live release again changes nothing: the instants of its schedule continue.
const PROMOTE: &str = "
    UPDATE flows f
       SET live_release = l.number,
           live_at = CASE WHEN f.live_release IS DISTINCT FROM l.number THEN moment()
                          ELSE f.live_at END
      FROM releases l
     WHERE f.namespace_id = $1 AND f.name = $2 AND l.flow_id = f.id AND l.number = $3";

/// The digests of the release that is live and of the one that is to be.
const DIGESTS: &str = "
    SELECT (SELECT digest FROM releases WHERE flow_id = f.id AND number = f.live_release),
           (SELECT digest FROM releases WHERE flow_id = f.id AND number = $3)
      FROM flows f
     WHERE f.namespace_id = $1 AND f.name = $2";

const MARK_LIVE: &str = "
    UPDATE releases l SET first_live_at = moment()
      FROM flows f
     WHERE f.namespace_id = $1 AND f.name = $2 AND l.flow_id = f.id AND l.number = $3
       AND l.first_live_at IS NULL";

/// Whether a release may go live: it did before, or the latest whole rehearsal of its digest with
/// these facts passed. The lock keeps the configuration as it is until the commit.
const PROVEN: &str = "
    WITH held AS (SELECT version FROM config_version FOR UPDATE)
    SELECT held.version, l.first_live_at IS NOT NULL,
           coalesce((SELECT r.state = 'passed' FROM rehearsals r
                      WHERE r.namespace_id = $1 AND r.flow = $2 AND r.digest = l.digest
                        AND r.facts = $4 AND r.whole AND r.state IN ('passed', 'violated')
                      ORDER BY r.asked_at DESC LIMIT 1), false)
      FROM held, releases l
      JOIN flows f ON f.id = l.flow_id
     WHERE f.namespace_id = $1 AND f.name = $2 AND l.number = $3";

/// What is recorded where a release goes live again that no rehearsal has proven.
const UNPROVEN: &str = "not proven by a rehearsal; it was live before";

pub(crate) const STATEMENTS: &[&str] = &[PROMOTE, DIGESTS, MARK_LIVE, PROVEN];

/// Makes a release live. False if there is none of that number. The act is recorded in the same
/// commit.
pub async fn promote(
    cell: HomeCell<'_>,
    namespace_id: i32,
    flow: &FlowName,
    number: i32,
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let promoted = make_live(&tx, (namespace_id, flow, number), act).await?;
    tx.commit().await?;
    Ok(promoted)
}

/// Makes a release live that a rehearsal has proven, or that was live before. The proof is compared
/// in the same commit.
pub async fn promote_proven(
    cell: HomeCell<'_>,
    (namespace_id, flow, number): (i32, &FlowName, i32),
    asked: &AskedProof<'_>,
    act: &AuditEntry,
) -> Result<Promotion, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let row = tx
        .query_opt(
            PROVEN,
            &[&namespace_id, &flow.as_str(), &number, &asked.facts],
        )
        .await?;
    let Some(row) = row else {
        return Ok(Promotion::Unknown);
    };
    let (version, was_live, passed): (i64, bool, bool) = (row.get(0), row.get(1), row.get(2));
    if version != asked.version {
        return Ok(Promotion::Changed);
    }
    if !was_live && !passed {
        return Ok(Promotion::NotProven);
    }
    let act = match passed {
        true => Ok(act.clone()),
        false => act.clone().because(UNPROVEN),
    };
    let act = act.unwrap_or_else(|error| unreachable!("{UNPROVEN}: {error}"));
    make_live(&tx, (namespace_id, flow, number), &act).await?;
    tx.commit().await?;
    Ok(Promotion::Done)
}

/// What a promotion rests on.
#[derive(Clone, Copy, Debug)]
pub struct AskedProof<'a> {
    /// What the connections say that the flow and those it calls use.
    pub facts: &'a str,
    /// The version of the configuration that this was read from.
    pub version: i64,
}

/// What became of a promotion that needs a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promotion {
    /// The release is live.
    Done,
    /// There is no such release.
    Unknown,
    /// No rehearsal has proven it with these facts.
    NotProven,
    /// The configuration has changed since the facts were read.
    Changed,
}

async fn make_live(
    tx: &Transaction<'_>,
    (namespace_id, flow, number): (i32, &FlowName, i32),
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let values: [&(dyn ToSql + Sync); 3] = [&namespace_id, &flow.as_str(), &number];
    // Locked before it is read: of two promotions the second one sees what the first one made live.
    tx.query_opt(LOCK_FLOW, &values[..2]).await?;
    let digests = tx.query_opt(DIGESTS, &values).await?;
    let digest = |column: usize| {
        let row = digests.as_ref()?;
        read_digest(row.get::<_, Option<&str>>(column)?)
    };
    let (old, new) = (digest(0), digest(1));
    let promoted = tx.execute(PROMOTE, &values).await?;
    if promoted == 1 {
        tx.execute(MARK_LIVE, &values).await?;
        audit::append(tx, &act.clone().changing(old, new)).await?;
    }
    tx.execute(BUMP, &[]).await?;
    Ok(promoted == 1)
}
