//! What the holder of a named effect reports, under the token of its hold.
//!
//! A report under an older token changes nothing. That it is done is recorded all the same: it turns
//! a doubt into done, also one that an operator settled as *did not happen*, and is a note beside
//! a newer holder.

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use semel_model::storable::excerpt;
use semel_model::{NamedEffectId, NamedEffectState, SeededBug};
use serde_json::Value;
use tokio_postgres::types::{Json, ToSql};

use super::upkeep::ABSENT_SECS;
use super::waiters::{self, NamedEffectWaiter};
use super::{NamedEffectView, NamedHolder, views};
use crate::cell::{ReadError, SlotCell};

const HEARTBEAT: &str = "/* commits alone: named effect heartbeat */
    UPDATE named_effects n
       SET heartbeat_at = p.now, lease_until = p.now + make_interval(secs => n.lease_ms / 1e3)
      FROM (SELECT moment() AS now) p
     WHERE n.id = $1 AND n.namespace_id = $2 AND n.token = $3 AND n.lease_until > p.now
 RETURNING n.lease_until";

const DONE: &str = "
    UPDATE named_effects n
       SET state = 'done', result = $4, external_id = $5, status = $6, fault = NULL,
           settled_at = p.now,
           settled_by = NULL, lease_until = NULL,
           expires_at = p.now + make_interval(secs => n.keep_ms / 1e3)
      FROM (SELECT moment() AS now) p
     WHERE n.id = $1 AND n.namespace_id = $2 AND n.token = $3
       AND (n.state IN ('pending', 'in_doubt')
            OR (n.state = 'failed' AND n.settled_by IS NOT NULL AND n.expires_at > p.now))";

/// A doubt about a run is the run's to settle; of a script that was lost it is not.
const FAIL: &str = "
    UPDATE named_effects n
       SET state = 'failed', fault = $4, settled_at = p.now, settled_by = NULL, lease_until = NULL,
           expires_at = p.now + make_interval(secs => n.keep_ms / 1e3)
      FROM (SELECT moment() AS now) p
     WHERE n.id = $1 AND n.namespace_id = $2 AND n.token = $3
       AND ((n.state = 'pending' AND (n.lease_until IS NULL OR n.lease_until > p.now))
            OR (n.state = 'in_doubt' AND n.holder_run IS NOT NULL))";

const DOUBT: &str = "
    UPDATE named_effects n
       SET state = 'in_doubt', fault = $4, lease_until = NULL
     WHERE n.id = $1 AND n.namespace_id = $2 AND n.token = $3 AND n.state = 'pending'";

/// Nothing was sent, so the generation stays, for the same request.
const FREE: &str = "
    UPDATE named_effects n
       SET state = 'absent', lease_until = NULL, expires_at = p.now + make_interval(secs => $4)
      FROM (SELECT moment() AS now) p
     WHERE n.id = $1 AND n.namespace_id = $2 AND n.token = $3
       AND n.state = 'pending' AND (n.lease_until IS NULL OR n.lease_until > p.now)";

/// The same, for a run that may hold the name and does not know its token. A hold that began after
/// the run said so is one of its later life.
const RELEASE: &str = "
    UPDATE named_effects n
       SET state = 'absent', expires_at = p.now + make_interval(secs => $5)
      FROM (SELECT moment() AS now) p
     WHERE n.id = $1 AND n.namespace_id = $2 AND n.holder = $3 AND n.heartbeat_at <= $4
       AND n.state = 'pending'
 RETURNING n.token";

/// It was done, and counts as not done: the next intent has another key.
const UNDONE: &str = "
    UPDATE named_effects n
       SET state = 'absent', generation = n.generation + 1, fingerprint = NULL, settled_at = NULL,
           settled_by = NULL, result = NULL, external_id = NULL, status = NULL, fault = NULL,
           note = NULL, expires_at = p.now + make_interval(secs => $4)
      FROM (SELECT moment() AS now) p
     WHERE n.id = $1 AND n.namespace_id = $2 AND n.token = $3 AND n.state = 'done'";

/// A token that was never given out is no holder's.
const NOTE: &str = "
    UPDATE named_effects n
       SET note = $4
     WHERE n.id = $1 AND n.namespace_id = $2 AND n.token >= $3
       AND n.state IN ('pending', 'in_doubt', 'failed')";

pub(crate) const STATEMENTS: &[&str] = &[HEARTBEAT, DONE, FAIL, DOUBT, FREE, RELEASE, UNDONE, NOTE];

/// The most characters of a note.
const NOTE_CHARS_MAX: usize = 2_000;

/// What a holder has to show for a done effect.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamedResult {
    /// Its result.
    pub result: Option<Value>,
    /// What the destination calls the thing that it made.
    pub external_id: Option<String>,
}

/// What a report of a holder, or an operator's settlement, came to.
#[derive(Clone, Debug)]
pub enum NamedReport {
    /// It is recorded. Wake these runs, then say so with [`woken`](super::woken).
    Recorded(Vec<NamedEffectWaiter>),
    /// The same was recorded before. Its waiters may still be asleep.
    Repeated(Vec<NamedEffectWaiter>),
    /// It changes nothing: this is what stands.
    Late(Box<NamedEffectView>),
    /// There is no such effect.
    Unknown,
}

/// Renews the lease of a script. Nothing where its token is not the latest, or its lease is over.
pub async fn heartbeat(
    cell: SlotCell<'_>,
    namespace_id: i32,
    id: NamedEffectId,
    token: i64,
) -> Result<Option<Timestamp>, ReadError> {
    let client = cell.reader().await?;
    let values: [&(dyn ToSql + Sync); 3] = [id.as_uuid(), &namespace_id, &token];
    let row = client.query_opt(HEARTBEAT, &values).await?;
    Ok(row.map(|row| row.get(0)))
}

/// Records that the effect happened.
pub async fn done(
    cell: SlotCell<'_>,
    namespace_id: i32,
    id: NamedEffectId,
    token: i64,
    happened: &NamedResult,
) -> Result<NamedReport, ReadError> {
    done_with(cell, (namespace_id, id, token), happened, None).await
}

/// [`done`], with the HTTP status that a step got.
pub async fn done_with(
    cell: SlotCell<'_>,
    (namespace_id, id, token): (i32, NamedEffectId, i64),
    happened: &NamedResult,
    status: Option<u16>,
) -> Result<NamedReport, ReadError> {
    let result = happened.result.as_ref().map(Json);
    let status = status.and_then(|status| i16::try_from(status).ok());
    let values: [&(dyn ToSql + Sync); 6] = [
        id.as_uuid(),
        &namespace_id,
        &token,
        &result,
        &happened.external_id,
        &status,
    ];
    let report = Report {
        namespace_id,
        id,
        token,
        same: &|view| {
            view.state == NamedEffectState::Done
                && (&view.result, &view.external_id) == (&happened.result, &happened.external_id)
        },
        late: late_done(token, happened),
    };
    let text = SeededBug::NamedTokenIgnored.in_text(DONE, "n.token = $3", "n.token >= $3");
    report.write(cell, text, &values).await
}

/// Records that the effect did not happen.
pub async fn fail(
    cell: SlotCell<'_>,
    namespace_id: i32,
    id: NamedEffectId,
    token: i64,
    fault: &Value,
) -> Result<NamedReport, ReadError> {
    let values: [&(dyn ToSql + Sync); 4] = [id.as_uuid(), &namespace_id, &token, &Json(fault)];
    let report = Report {
        namespace_id,
        id,
        token,
        same: &|view| view.state == NamedEffectState::Failed,
        late: format!("its holder reported too late that it failed (token {token}): {fault}"),
    };
    report.write(cell, FAIL, &values).await
}

/// Records that the holder cannot tell whether the effect happened.
pub async fn doubt(
    cell: SlotCell<'_>,
    namespace_id: i32,
    id: NamedEffectId,
    token: i64,
    fault: &Value,
) -> Result<NamedReport, ReadError> {
    let values: [&(dyn ToSql + Sync); 4] = [id.as_uuid(), &namespace_id, &token, &Json(fault)];
    let report = Report {
        namespace_id,
        id,
        token,
        same: &|view| view.state == NamedEffectState::InDoubt,
        late: format!("a former holder cannot tell whether it happened (token {token}): {fault}"),
    };
    report.write(cell, DOUBT, &values).await
}

/// Ends a hold under which nothing was sent: the name is free as before.
pub async fn free(
    cell: SlotCell<'_>,
    namespace_id: i32,
    id: NamedEffectId,
    token: i64,
) -> Result<NamedReport, ReadError> {
    let values: [&(dyn ToSql + Sync); 4] = [id.as_uuid(), &namespace_id, &token, &ABSENT_SECS];
    let report = Report {
        namespace_id,
        id,
        token,
        same: &|_| false,
        late: String::new(),
    };
    report.write(cell, FREE, &values).await
}

/// Ends a hold whose token its run does not know: it began at `at` at the latest.
pub(super) async fn release(
    cell: SlotCell<'_>,
    namespace_id: i32,
    id: NamedEffectId,
    holder: &NamedHolder,
    at: Timestamp,
) -> Result<NamedReport, ReadError> {
    let holder = holder.identity();
    let values: [&(dyn ToSql + Sync); 5] =
        [id.as_uuid(), &namespace_id, &holder, &at, &ABSENT_SECS];
    let report = Report {
        namespace_id,
        id,
        token: 0,
        same: &|_| false,
        late: String::new(),
    };
    report.write(cell, RELEASE, &values).await
}

/// Records that a done effect was undone: it counts as not done, and the next intent under its name
/// has another key.
pub async fn undone(
    cell: SlotCell<'_>,
    namespace_id: i32,
    id: NamedEffectId,
    token: i64,
) -> Result<NamedReport, ReadError> {
    let values: [&(dyn ToSql + Sync); 4] = [id.as_uuid(), &namespace_id, &token, &ABSENT_SECS];
    let report = Report {
        namespace_id,
        id,
        token,
        same: &|_| false,
        late: format!("it was undone after another holder began (token {token})"),
    };
    report.write(cell, UNDONE, &values).await
}

fn late_done(token: i64, happened: &NamedResult) -> String {
    let external = happened.external_id.as_deref().unwrap_or("none");
    format!("a former holder reported that it is done (token {token}, external id {external})")
}

/// A report on its way in.
struct Report<'a> {
    namespace_id: i32,
    id: NamedEffectId,
    token: i64,
    /// Whether what stands under its token is what it says.
    same: &'a (dyn Fn(&NamedEffectView) -> bool + Sync),
    /// What is noted where it comes too late; nothing where it is empty.
    late: String,
}

impl Report<'_> {
    async fn write(
        &self,
        cell: SlotCell<'_>,
        text: &'static str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<NamedReport, ReadError> {
        let bug = SeededBug::NameTokenNotCompared;
        let text = bug.in_text(text, "n.token = $3", "n.token >= $3");
        let mut client = cell.reader().await?;
        let tx = client.transaction().await?;
        let recorded = tx.execute(text, values).await? > 0;
        let report = match recorded {
            true => NamedReport::Recorded(waiters::of_effect(&tx, self.id).await?),
            false => self.explain(&tx).await?,
        };
        tx.commit().await?;
        Ok(report)
    }

    async fn explain(&self, tx: &Transaction<'_>) -> Result<NamedReport, ReadError> {
        let Some(view) = views::read(tx, self.namespace_id, self.id).await? else {
            return Ok(NamedReport::Unknown);
        };
        if view.token == self.token && (self.same)(&view) {
            let waiters = waiters::of_effect(tx, self.id).await?;
            return Ok(NamedReport::Repeated(waiters));
        }
        if !self.late.is_empty() {
            let note = excerpt(&self.late, NOTE_CHARS_MAX);
            let values: [&(dyn ToSql + Sync); 4] =
                [self.id.as_uuid(), &self.namespace_id, &self.token, &note];
            tx.execute(NOTE, &values).await?;
        }
        Ok(NamedReport::Late(Box::new(view)))
    }
}
