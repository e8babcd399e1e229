//! The `audit` table: what operators did that changes what Semel would have done by itself.
//!
//! An act and its record are one commit: code that changes something on an operator's behalf passes
//! the [`AuditEntry`] to the statement or transaction that makes the change. The database itself refuses to
//! change a row, and to remove one otherwise than [`removal`] does, which keeps the seal of what it removes.
//!
//! What cannot be recorded is refused before anything is done: see [`AuditEntry::because`].

pub mod chain;
pub mod guard;
pub mod list;
pub mod origin;
pub mod removal;

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use semel_model::{RunId, RunJobId, TokenId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use self::origin::ActOrigin;
use crate::cell::{OneCell, ReadError, SlotCell};

// Crosses slots (V4): `audit` has no slot, and its rows commit with changes of any slot and of control
// data. A second cell has a table of its own; reading merges them by time, cell and identity.

/// Several acts at once, for writers whose batches may carry some.
pub(crate) const APPEND: &str = "
    INSERT INTO audit (namespace_id, actor, action, subject, reason, run_id, token_id, address,
                       old_digest, new_digest)
    SELECT t.namespace_id, t.actor, t.action, t.subject, t.reason, t.run_id, t.token_id, t.address,
           t.old_digest, t.new_digest
      FROM unnest($1::int4[], $2::text[], $3::text[], $4::text[], $5::text[], $6::uuid[],
                  $7::uuid[], $8::text[], $9::bytea[], $10::bytea[])
        AS t (namespace_id, actor, action, subject, reason, run_id, token_id, address, old_digest,
              new_digest)";

const LIST_OF_RUN: &str = "
    SELECT at, actor, action, subject, reason
      FROM audit
     WHERE namespace_id = $1 AND run_id = $2
     ORDER BY id
     LIMIT $3";

/// Whether an act that is done once to a run is recorded.
const DONE: &str = "
    SELECT 1 FROM audit WHERE run_id = $1 AND action = $2 AND subject = $3 LIMIT 1";

pub(crate) const STATEMENTS: &[&str] = &[
    APPEND,
    DONE,
    LIST_OF_RUN,
    list::ALL,
    list::OF_ACTOR,
    list::OF_ACTION,
    list::OF_BOTH,
    list::OF_SUBJECT,
    list::OF_SUBJECT_AND_ACTOR,
    list::OF_SUBJECT_AND_ACTION,
    list::OF_ALL_THREE,
    chain::ALONE,
    chain::UNSEALED,
    chain::LAST,
    chain::SEAL,
    chain::CHAIN,
    removal::NEXT,
    removal::LAST,
    removal::FIRST,
    removal::OLD,
    removal::REMOVE,
    removal::LIST,
    guard::CAN_REWRITE_RECORD,
];

/// The most characters of a reason.
pub const REASON_CHARS_MAX: usize = 2_000;

/// The most characters of what an act was done to.
const SUBJECT_CHARS_MAX: usize = 1_000;

/// Why a reason cannot be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReasonError {
    /// It says nothing.
    #[error("the reason is empty")]
    Empty,
    /// It has a character that PostgreSQL's text cannot hold.
    #[error("the reason contains a zero byte")]
    ZeroByte,
    /// It is longer than what is recorded.
    #[error("the reason has more than {REASON_CHARS_MAX} characters")]
    TooLong,
}

impl ReasonError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(self) -> &'static str {
        "reason-invalid"
    }
}

/// What an operator does, ready to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    namespace_id: i32,
    actor: String,
    action: &'static str,
    subject: String,
    reason: Option<String>,
    run: Option<RunId>,
    is_once: bool,
    token: Option<TokenId>,
    address: Option<String>,
    old_digest: Option<[u8; 32]>,
    new_digest: Option<[u8; 32]>,
}

impl AuditEntry {
    /// An act of `actor`, e.g. `token:laptop`, named e.g. `run.cancel`. Its origin is that of the request
    /// that is being answered ([`ActOrigin`]).
    pub fn new(namespace_id: i32, actor: &str, action: &'static str, subject: &str) -> Self {
        let origin = ActOrigin::current();
        Self {
            namespace_id,
            actor: storable(actor),
            action,
            subject: storable(subject),
            reason: None,
            run: None,
            is_once: false,
            token: origin.token,
            address: origin.address_text(),
            old_digest: None,
            new_digest: None,
        }
    }

    /// Names the token that it is done by, where the request does not carry it.
    #[must_use]
    pub fn by_token(self, token: TokenId) -> Self {
        Self {
            token: Some(token),
            ..self
        }
    }

    /// Says what was there before and what is there now, by their digests; none where nothing was, or is.
    #[must_use]
    pub(crate) fn changing(self, old: Option<[u8; 32]>, new: Option<[u8; 32]>) -> Self {
        Self {
            old_digest: old,
            new_digest: new,
            ..self
        }
    }

    /// Adds the reason, in the operator's words.
    ///
    /// # Errors
    ///
    /// If the words cannot be recorded as they are. They are never cut: an operator who does not
    /// see the error would believe that all of them are recorded.
    pub fn because(self, reason: &str) -> Result<Self, ReasonError> {
        Ok(Self {
            reason: Some(check_reason(reason)?.to_owned()),
            ..self
        })
    }

    /// Names the run that it concerns, so that it is shown with that run.
    #[must_use]
    pub fn about(self, run: RunId) -> Self {
        Self {
            run: Some(run),
            ..self
        }
    }

    /// Names the job that does it to a run, once: a server that continues the job after another one
    /// died finds the act by this.
    #[must_use]
    pub fn within(self, job: RunJobId) -> Self {
        Self {
            subject: storable(&format!("{} in {job}", self.subject)),
            is_once: true,
            ..self
        }
    }

    /// Who does it.
    #[must_use]
    pub fn actor(&self) -> &str {
        &self.actor
    }

    /// Another act of the same actor for the same reason, which follows from this one.
    #[must_use]
    pub(crate) fn followed_by(
        &self,
        namespace_id: i32,
        action: &'static str,
        subject: &str,
    ) -> Self {
        Self {
            namespace_id,
            action,
            ..self.done_to(subject)
        }
    }

    /// The same act, done to something that is known only now.
    #[must_use]
    pub(crate) fn done_to(&self, subject: &str) -> Self {
        Self {
            subject: storable(subject),
            ..self.clone()
        }
    }
}

/// A reason that can be recorded, without the blanks around it.
///
/// # Errors
///
/// If it says nothing, is too long, or has a zero byte.
pub fn check_reason(reason: &str) -> Result<&str, ReasonError> {
    let reason = reason.trim();
    if reason.is_empty() {
        return Err(ReasonError::Empty);
    }
    if reason.contains('\0') {
        return Err(ReasonError::ZeroByte);
    }
    if reason.chars().nth(REASON_CHARS_MAX).is_some() {
        return Err(ReasonError::TooLong);
    }
    Ok(reason)
}

/// A name as the record can hold it: a zero byte is shown as the sign for one.
fn storable(text: &str) -> String {
    let shown = text.chars().map(|c| if c == '\0' { '\u{2400}' } else { c });
    shown.take(SUBJECT_CHARS_MAX).collect()
}

/// Acts, one array per column.
#[derive(Default)]
pub(crate) struct Rows<'a> {
    namespaces: Vec<i32>,
    actors: Vec<&'a str>,
    actions: Vec<&'static str>,
    subjects: Vec<&'a str>,
    reasons: Vec<Option<&'a str>>,
    runs: Vec<Option<Uuid>>,
    tokens: Vec<Option<Uuid>>,
    addresses: Vec<Option<&'a str>>,
    old_digests: Vec<Option<&'a [u8]>>,
    new_digests: Vec<Option<&'a [u8]>>,
}

impl<'a> Rows<'a> {
    pub(crate) fn of(acts: impl IntoIterator<Item = &'a AuditEntry>) -> Self {
        let mut rows = Self::default();
        for act in acts {
            rows.push(act);
        }
        rows
    }

    pub(crate) fn push(&mut self, act: &'a AuditEntry) {
        if semel_model::SeededBug::AuditOmitted.is_seeded() {
            return;
        }
        self.namespaces.push(act.namespace_id);
        self.actors.push(&act.actor);
        self.actions.push(act.action);
        self.subjects.push(&act.subject);
        self.reasons.push(act.reason.as_deref());
        self.runs.push(act.run.map(|run| *run.as_uuid()));
        self.tokens.push(act.token.map(|token| *token.as_uuid()));
        self.addresses.push(act.address.as_deref());
        self.old_digests
            .push(act.old_digest.as_ref().map(|digest| &digest[..]));
        self.new_digests
            .push(act.new_digest.as_ref().map(|digest| &digest[..]));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.actors.is_empty()
    }

    pub(crate) fn values(&'a self) -> [&'a (dyn ToSql + Sync); 10] {
        [
            &self.namespaces,
            &self.actors,
            &self.actions,
            &self.subjects,
            &self.reasons,
            &self.runs,
            &self.tokens,
            &self.addresses,
            &self.old_digests,
            &self.new_digests,
        ]
    }
}

/// Records an act in the transaction that carries it out.
pub(crate) async fn append(tx: &Transaction<'_>, act: &AuditEntry) -> Result<(), ReadError> {
    let rows = Rows::of([act]);
    tx.execute(APPEND, &rows.values()).await?;
    Ok(())
}

/// Records several acts in the transaction that carries them out.
pub(crate) async fn append_all(tx: &Transaction<'_>, acts: &[AuditEntry]) -> Result<(), ReadError> {
    let rows = Rows::of(acts);
    if !rows.is_empty() {
        tx.execute(APPEND, &rows.values()).await?;
    }
    Ok(())
}

/// Whether a job has done this act to its run before. Of any other act: no.
///
/// Sure where the caller holds what the act changes: the act's own commit held it as well.
pub async fn is_done(cell: SlotCell<'_>, act: &AuditEntry) -> Result<bool, ReadError> {
    if !act.is_once {
        return Ok(false);
    }
    let mut client = cell.reader().await?;
    is_done_within(&client.transaction().await?, act).await
}

/// The same within the transaction that is about to do it.
pub(crate) async fn is_done_within(
    tx: &Transaction<'_>,
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let Some(run) = act.run.filter(|_| act.is_once) else {
        return Ok(false);
    };
    let values: [&(dyn ToSql + Sync); 3] = [run.as_uuid(), &act.action, &act.subject];
    Ok(tx.query_opt(DONE, &values).await?.is_some())
}

/// Runs one statement and, where it changed something, records the act in the same commit. Says
/// how many rows it changed.
pub(crate) async fn execute<'a>(
    cell: impl Into<OneCell<'a>>,
    text: &str,
    values: &[&(dyn ToSql + Sync)],
    act: &AuditEntry,
) -> Result<u64, ReadError> {
    let mut client = cell.into().reader().await?;
    let tx = client.transaction().await?;
    let changed = tx.execute(text, values).await?;
    if changed > 0 {
        append(&tx, act).await?;
    }
    tx.commit().await?;
    Ok(changed)
}

/// The same for a statement that returns a row where it changed something.
pub(crate) async fn query_opt<'a>(
    cell: impl Into<OneCell<'a>>,
    text: &str,
    values: &[&(dyn ToSql + Sync)],
    act: &AuditEntry,
) -> Result<Option<Row>, ReadError> {
    let mut client = cell.into().reader().await?;
    let tx = client.transaction().await?;
    let row = tx.query_opt(text, values).await?;
    if row.is_some() {
        append(&tx, act).await?;
    }
    tx.commit().await?;
    Ok(row)
}

/// Records the beginning of an act whose effect is made elsewhere, where no transaction of ours
/// reaches: whatever follows, the record is there before it.
pub async fn begin<'a>(cell: impl Into<OneCell<'a>>, act: &AuditEntry) -> Result<(), ReadError> {
    let rows = Rows::of([act]);
    let client = cell.into().reader().await?;
    client.execute(APPEND, &rows.values()).await?;
    Ok(())
}

/// An act as the API shows it.
#[derive(Clone, Debug)]
pub struct AuditView {
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
}

/// What people did to a run, its effects, waits and key, oldest first.
pub async fn list_of_run(
    cell: SlotCell<'_>,
    namespace_id: i32,
    run: RunId,
    limit: u16,
) -> Result<Vec<AuditView>, ReadError> {
    let limit = i64::from(limit);
    let client = cell.reader().await?;
    let rows = client
        .query(LIST_OF_RUN, &[&namespace_id, run.as_uuid(), &limit])
        .await?;
    Ok(rows
        .iter()
        .map(|row| AuditView {
            at: row.get(0),
            actor: row.get(1),
            action: row.get(2),
            subject: row.get(3),
            reason: row.get(4),
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_that_cannot_be_recorded_is_refused_and_never_cut() {
        let longest = "ü".repeat(REASON_CHARS_MAX);
        let act = || AuditEntry::new(1, "token:ada", "run.cancel", "run_1");

        assert_eq!(check_reason(&longest), Ok(longest.as_str()));
        assert_eq!(
            check_reason(&format!("{longest}x")),
            Err(ReasonError::TooLong)
        );
        assert_eq!(check_reason("a\0b"), Err(ReasonError::ZeroByte));
        assert_eq!(check_reason(" \n"), Err(ReasonError::Empty));
        assert_eq!(act().because("a\0b"), Err(ReasonError::ZeroByte));
    }

    #[test]
    fn a_name_with_a_zero_byte_can_be_recorded() {
        let act = AuditEntry::new(1, "token:ada", "key.drop", "orders a\0b");

        assert_eq!(act.subject, "orders a\u{2400}b");
    }
}
