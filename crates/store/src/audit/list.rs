//! The audit record as it is listed: by time, by actor, by action, by subject.

use jiff::Timestamp;
use semel_model::{RunId, TokenId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{EveryCell, ReadError};

/// One text for each filter that has an index, so that none of them scans.
macro_rules! listed {
    ($condition:literal) => {
        concat!(
            "
    SELECT a.id, a.at, a.actor, a.action, a.subject, a.reason, a.run_id, c.position, c.digest,
           a.token_id, a.address, a.old_digest, a.new_digest
      FROM audit a
      LEFT JOIN audit_chain c ON c.namespace_id = a.namespace_id AND c.audit_id = a.id
     WHERE a.namespace_id = $1 AND a.at >= $2 AND (a.at, a.id) < ($3, $4)",
            $condition,
            "
     ORDER BY a.at DESC, a.id DESC
     LIMIT $5"
        )
    };
}

pub(super) const ALL: &str = listed!("");
pub(super) const OF_ACTOR: &str = listed!(" AND a.actor = $6");
pub(super) const OF_ACTION: &str = listed!(" AND a.action = $6");
pub(super) const OF_BOTH: &str = listed!(" AND a.actor = $6 AND a.action = $7");

/// By the hash of the subject, which the index has: a subject may be longer than an index takes. Each of
/// the others narrows the acts of one subject.
pub(super) const OF_SUBJECT: &str =
    listed!(" AND hashtextextended(a.subject, 0) = hashtextextended($6, 0) AND a.subject = $6");
pub(super) const OF_SUBJECT_AND_ACTOR: &str = listed!(
    " AND hashtextextended(a.subject, 0) = hashtextextended($6, 0) AND a.subject = $6 AND a.actor = $7"
);
pub(super) const OF_SUBJECT_AND_ACTION: &str = listed!(
    " AND hashtextextended(a.subject, 0) = hashtextextended($6, 0) AND a.subject = $6 AND a.action = $7"
);
pub(super) const OF_ALL_THREE: &str = listed!(
    " AND hashtextextended(a.subject, 0) = hashtextextended($6, 0) AND a.subject = $6 AND a.actor = $7
       AND a.action = $8"
);

/// Which acts to list.
#[derive(Clone, Debug, Default)]
pub struct ActFilter<'a> {
    /// Only of this actor.
    pub actor: Option<&'a str>,
    /// Only this action.
    pub action: Option<&'a str>,
    /// Only those that were done to this.
    pub subject: Option<&'a str>,
    /// At this time or later.
    pub since: Option<Timestamp>,
    /// Before this time, and before the act of this number at that time.
    pub before: Option<(Timestamp, i64)>,
}

/// An act with its place in the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActView {
    /// Its number in the record.
    pub id: i64,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: String,
    /// What was done.
    pub action: String,
    /// What it was done to.
    pub subject: String,
    /// The reason, in the operator's words.
    pub reason: Option<String>,
    /// The run that it concerns.
    pub run: Option<RunId>,
    /// Its place in the chain and its digest, once it is sealed.
    pub seal: Option<(i64, Vec<u8>)>,
    /// The token of the request.
    pub token: Option<TokenId>,
    /// The address of the client.
    pub address: Option<String>,
    /// The digest of what was there before.
    pub old_digest: Option<Vec<u8>>,
    /// The digest of what is there now.
    pub new_digest: Option<Vec<u8>>,
}

/// Lists acts of a namespace, latest first.
pub async fn list(
    cell: EveryCell<'_>,
    namespace_id: i32,
    filter: &ActFilter<'_>,
    limit: u16,
) -> Result<Vec<ActView>, ReadError> {
    let since = filter.since.unwrap_or(Timestamp::UNIX_EPOCH);
    let (until, id) = filter.before.unwrap_or((Timestamp::MAX, i64::MAX));
    // PostgreSQL's last instant is earlier than ours.
    let until = until.min("9999-01-01T00:00:00Z".parse().unwrap_or(until));
    let limit = i64::from(limit);
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&namespace_id, &since, &until, &id, &limit];
    let ActFilter {
        actor,
        action,
        subject,
        ..
    } = filter;
    for named in [subject, actor, action].into_iter().flatten() {
        values.push(named);
    }
    let text = match (subject, actor, action) {
        (None, None, None) => ALL,
        (None, Some(_), None) => OF_ACTOR,
        (None, None, Some(_)) => OF_ACTION,
        (None, Some(_), Some(_)) => OF_BOTH,
        (Some(_), None, None) => OF_SUBJECT,
        (Some(_), Some(_), None) => OF_SUBJECT_AND_ACTOR,
        (Some(_), None, Some(_)) => OF_SUBJECT_AND_ACTION,
        (Some(_), Some(_), Some(_)) => OF_ALL_THREE,
    };
    let rows = cell.reader().await?.query(text, &values).await?;
    Ok(rows.iter().map(read).collect())
}

pub(super) fn read(row: &Row) -> ActView {
    let (position, digest): (Option<i64>, Option<Vec<u8>>) = (row.get(7), row.get(8));
    ActView {
        id: row.get(0),
        at: row.get(1),
        actor: row.get(2),
        action: row.get(3),
        subject: row.get(4),
        reason: row.get(5),
        run: row.get::<_, Option<Uuid>>(6).map(RunId::from_uuid),
        seal: position.zip(digest),
        token: row.get::<_, Option<Uuid>>(9).map(TokenId::from_uuid),
        address: row.get(10),
        old_digest: row.get(11),
        new_digest: row.get(12),
    }
}
