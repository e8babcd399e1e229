//! What the holder of a named effect reports, under the token of its hold.
//!
//! A report under an older token changes nothing. That it is done is recorded all the same: it turns
//! a doubt into done, also one that an operator settled as *did not happen*, and is a note beside
//! a newer holder.
//!
//! A process reports on what was begun with its own API token, a run on holds of runs. The token of a hold
//! orders holds and is no secret: who learns that of another process, or of a run, can do nothing with
//! it, and leaves no note.

use jiff::Timestamp;
use semel_model::{NamedEffectId, NamedEffectState, SeededBug};
use serde_json::Value;
use tokio_postgres::types::{Json, ToSql};

use super::report::{NamedReport, NamedResult, Report, ReportedHold, Reporter, of_anybody};
use super::upkeep::{ABSENT_SECS, remembered};
use super::waiters::Waking;
use super::{NamedEffectView, NamedHolder};
use crate::cell::{ReadError, SlotCell};

const HEARTBEAT: &str = "/* commits alone: named effect heartbeat */
    UPDATE named_effects n
       SET heartbeat_at = p.now, lease_until = p.now + make_interval(secs => n.lease_ms / 1e3)
      FROM (SELECT moment() AS now) p
     WHERE n.id = $1 AND n.namespace_id = $2 AND n.token = $3
       AND n.holder_token IS NOT DISTINCT FROM $4 AND n.lease_until > p.now
 RETURNING n.lease_until";

/// What an operator settled as undone has no fingerprint: that it had been done before is no news.
const DONE: &str = "
    UPDATE named_effects n
       SET state = 'done', result = $5, external_id = $6, status = $7, fault = NULL,
           settled_at = p.now,
           settled_by = NULL, lease_until = NULL,
           expires_at = p.now + make_interval(secs => n.keep_ms / 1e3)
      FROM (SELECT moment() AS now) p
     WHERE n.id = $1 AND n.namespace_id = $2 AND n.token = $3 AND n.holder_token IS NOT DISTINCT FROM $4
       AND n.undo_seq IS NULL
       AND (n.state IN ('pending', 'in_doubt')
            OR (n.state = 'failed' AND n.settled_by IS NOT NULL AND n.fingerprint IS NOT NULL
                AND n.expires_at > p.now))";

/// A doubt about a run is the run's to settle; of a script that was lost it is not.
const FAIL: &str = "
    UPDATE named_effects n
       SET state = 'failed', fault = $5, settled_at = p.now, settled_by = NULL, lease_until = NULL,
           expires_at = p.now + make_interval(secs => n.keep_ms / 1e3)
      FROM (SELECT moment() AS now) p
     WHERE n.id = $1 AND n.namespace_id = $2 AND n.token = $3 AND n.holder_token IS NOT DISTINCT FROM $4
       AND ((n.state = 'pending' AND (n.lease_until IS NULL OR n.lease_until > p.now))
            OR (n.state = 'in_doubt' AND n.holder_run IS NOT NULL AND n.undo_seq IS NULL))";

const DOUBT: &str = "
    UPDATE named_effects n
       SET state = 'in_doubt', fault = $5, lease_until = NULL
     WHERE n.id = $1 AND n.namespace_id = $2 AND n.token = $3 AND n.holder_token IS NOT DISTINCT FROM $4
       AND n.state = 'pending'";

/// Ends a hold under which nothing was sent: the generation stays, for the same request, and what was
/// in doubt before the hold is in doubt again.
macro_rules! freed {
    ($secs:literal, $hold:literal) => {
        concat!(
            "
    UPDATE named_effects n
       SET state = CASE WHEN n.doubted THEN 'in_doubt'::named_effect_state ELSE 'absent' END,
           lease_until = NULL,
           expires_at = CASE WHEN n.doubted THEN NULL
                             WHEN n.generation > 0 THEN ",
            remembered!(),
            "
                             ELSE p.now + make_interval(secs => ",
            $secs,
            ") END
      FROM (SELECT moment() AS now) p
     WHERE ",
            $hold,
            " AND n.state = 'pending'"
        )
    };
}
pub(super) use freed;

const FREE: &str = freed!(
    "$5",
    "n.id = $1 AND n.namespace_id = $2 AND n.token = $3 AND n.holder_token IS NOT DISTINCT FROM $4
       AND (n.lease_until IS NULL OR n.lease_until > p.now)"
);

/// The same, for a run that may hold the name and does not know its token. A hold that it began with a
/// journal at least as long is one of its later life: the clock may have gone back since.
const RELEASE: &str = freed!(
    "$5",
    "n.id = $1 AND n.namespace_id = $2 AND n.holder = $3 AND n.holder_seq < $4"
);

/// It was done, and counts as not done: the next intent has another key.
const UNDONE: &str = concat!(
    "
    UPDATE named_effects n
       SET state = 'absent', generation = n.generation + 1, fingerprint = NULL, settled_at = NULL,
           settled_by = NULL, result = NULL, external_id = NULL, status = NULL, fault = NULL,
           note = NULL, undo_seq = NULL, expires_at = ",
    remembered!(),
    "
     WHERE n.id = $1 AND n.namespace_id = $2 AND n.token = $3 AND n.holder_token IS NOT DISTINCT FROM $4
       AND (n.state IN ('done', 'undoing') OR (n.state = 'in_doubt' AND n.undo_seq IS NOT NULL))"
);

/// An operator corrected what the run has to show for it.
const AMEND: &str = "
    UPDATE named_effects n
       SET result = $5, external_id = coalesce($6, n.external_id)
     WHERE n.id = $1 AND n.namespace_id = $2 AND n.token = $3 AND n.holder_token IS NOT DISTINCT FROM $4
       AND n.state = 'done'";

pub(crate) const STATEMENTS: &[&str] =
    &[HEARTBEAT, DONE, FAIL, DOUBT, FREE, RELEASE, UNDONE, AMEND];

/// Renews the lease of a script. Nothing where the hold is not its own, not the latest, or its lease is
/// over.
pub async fn heartbeat(
    cell: SlotCell<'_>,
    hold: ReportedHold,
) -> Result<Option<Timestamp>, ReadError> {
    let client = cell.reader().await?;
    let caller = hold.by.token();
    let values: [&(dyn ToSql + Sync); 4] =
        [hold.id.as_uuid(), &hold.namespace_id, &hold.token, &caller];
    let row = client.query_opt(of_anybody(HEARTBEAT), &values).await?;
    Ok(row.map(|row| row.get(0)))
}

/// Records that the effect happened.
pub async fn done(
    cell: SlotCell<'_>,
    hold: ReportedHold,
    happened: &NamedResult,
) -> Result<NamedReport, ReadError> {
    done_with(cell, hold, happened, None).await
}

/// [`done`], with the HTTP status that a step got.
pub async fn done_with(
    cell: SlotCell<'_>,
    hold: ReportedHold,
    happened: &NamedResult,
    status: Option<u16>,
) -> Result<NamedReport, ReadError> {
    let result = happened.result.as_ref().map(Json);
    let status = status.and_then(|status| i16::try_from(status).ok());
    let external_id = happened.stored_external_id();
    let values: [&(dyn ToSql + Sync); 3] = [&result, &external_id, &status];
    let report = Report {
        hold,
        same: &|view| is_done_with(view, happened),
        late: late_done(hold.token, happened),
        waking: Waking::All,
    };
    let text = SeededBug::NamedTokenIgnored.in_text(DONE, "n.token = $3", "n.token >= $3");
    report.write(cell, text, &values).await
}

/// Records that the effect did not happen.
pub async fn fail(
    cell: SlotCell<'_>,
    hold: ReportedHold,
    fault: &Value,
) -> Result<NamedReport, ReadError> {
    let token = hold.token;
    let report = Report {
        hold,
        same: &|view| view.state == NamedEffectState::Failed,
        late: format!("its holder reported too late that it failed (token {token}): {fault}"),
        waking: Waking::Few,
    };
    report.write(cell, FAIL, &[&Json(fault)]).await
}

/// Records that the holder cannot tell whether the effect happened.
pub async fn doubt(
    cell: SlotCell<'_>,
    hold: ReportedHold,
    fault: &Value,
) -> Result<NamedReport, ReadError> {
    let token = hold.token;
    let report = Report {
        hold,
        same: &|view| view.state == NamedEffectState::InDoubt,
        late: format!("a former holder cannot tell whether it happened (token {token}): {fault}"),
        waking: Waking::All,
    };
    report.write(cell, DOUBT, &[&Json(fault)]).await
}

/// Ends a hold under which nothing was sent: the name is free, or in doubt, as before.
pub async fn free(cell: SlotCell<'_>, hold: ReportedHold) -> Result<NamedReport, ReadError> {
    let report = Report {
        hold,
        same: &|_| false,
        late: String::new(),
        waking: Waking::Few,
    };
    report.write(cell, FREE, &[&ABSENT_SECS]).await
}

/// Ends a hold whose token its run does not know: it began before this row of the run's journal.
pub(super) async fn release(
    cell: SlotCell<'_>,
    (namespace_id, id): (i32, NamedEffectId),
    holder: &NamedHolder,
    seq: i32,
) -> Result<NamedReport, ReadError> {
    let holder = holder.identity();
    let values: [&(dyn ToSql + Sync); 5] =
        [id.as_uuid(), &namespace_id, &holder, &seq, &ABSENT_SECS];
    let report = Report {
        hold: ReportedHold {
            namespace_id,
            id,
            token: 0,
            by: Reporter::Run,
        },
        same: &|_| false,
        late: String::new(),
        waking: Waking::Few,
    };
    report.execute(cell, RELEASE, &values).await
}

/// Records that a done effect was undone: it counts as not done, and the next intent under its name
/// has another key.
pub(super) async fn undone(
    cell: SlotCell<'_>,
    hold: ReportedHold,
) -> Result<NamedReport, ReadError> {
    let token = hold.token;
    let report = Report {
        hold,
        same: &|_| false,
        late: format!("it was undone after another holder began (token {token})"),
        waking: Waking::Few,
    };
    report.write(cell, UNDONE, &[]).await
}

/// Corrects what its holder has to show for a done effect; the external id stays where none is given.
pub(super) async fn amend(
    cell: SlotCell<'_>,
    hold: ReportedHold,
    corrected: &NamedResult,
) -> Result<NamedReport, ReadError> {
    let result = corrected.result.as_ref().map(Json);
    let report = Report {
        hold,
        same: &|_| false,
        late: String::new(),
        waking: Waking::All,
    };
    let external_id = corrected.stored_external_id();
    let values: [&(dyn ToSql + Sync); 2] = [&result, &external_id];
    report.write(cell, AMEND, &values).await
}

fn is_done_with(view: &NamedEffectView, happened: &NamedResult) -> bool {
    view.state == NamedEffectState::Done && happened.is_that_of(view)
}

fn late_done(token: i64, happened: &NamedResult) -> String {
    let external = happened.external_id.as_deref().unwrap_or("none");
    format!("a former holder reported that it is done (token {token}, external id {external})")
}
