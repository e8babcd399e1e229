//! The audit record: listed, and read in the order in which it is sealed.

use axum::extract::State;
use semel_api::types::{
    AuditFilter, AuditRecord, ChainFilter, Page, RemovedFilter, RemovedStretch,
};
use semel_store::audit::list::{self, ActFilter, ActView};
use semel_store::audit::{self, AuditEntry, chain, removal};
use uuid::Uuid;

use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;
use crate::cursor;
use crate::error::ApiError;
use crate::query::{Params, page_size};

/// `GET /v1/audit`.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(filter): Params<AuditFilter>,
) -> Answered {
    let limit = page_size(filter.limit);
    let before = cursor::read(filter.cursor.as_deref())?;
    let before = before.map(|(at, id)| (at, i64::try_from(id.as_u128()).unwrap_or(i64::MAX)));
    let wanted = ActFilter {
        actor: filter.actor.as_deref(),
        action: filter.action.as_deref(),
        subject: filter.subject.as_deref(),
        since: filter.since,
        before: match (before, filter.until.map(|until| (until, i64::MIN))) {
            (Some(before), Some(until)) => Some(before.min(until)),
            (before, until) => before.or(until),
        },
    };
    let (cell, id) = (app.cell().every(), caller.namespace_id);
    let found = list::list(cell, id, &wanted, limit).await?;
    let last = found.last().filter(|_| found.len() == usize::from(limit));
    let next = last.map(|last| cursor::write(last.at, &as_uuid(last.id)));
    let items: Vec<AuditRecord> = found.into_iter().map(view).collect();
    answer::ok(&Page { items, next })
}

/// `GET /v1/audit/chain`.
pub(crate) async fn chain(
    State(app): State<App>,
    caller: Caller,
    Params(filter): Params<ChainFilter>,
) -> Answered {
    let limit = page_size(filter.limit);
    if filter.export == Some(true) {
        begin_export(&app, &caller, filter.after).await?;
    }
    let (cell, id) = (app.cell().every(), caller.namespace_id);
    let found = chain::list_chain(cell, id, filter.after, limit).await?;
    let last = found.last().filter(|_| found.len() == usize::from(limit));
    let next = last.and_then(|last| last.seal.as_ref());
    let next = next.map(|(position, _)| position.to_string());
    let items: Vec<AuditRecord> = found.into_iter().map(view).collect();
    answer::ok(&Page { items, next })
}

/// Records that the chain is exported from behind a position to its present end.
async fn begin_export(app: &App, caller: &Caller, after: i64) -> Result<(), ApiError> {
    let id = caller.namespace_id;
    let heads = chain::list_heads(app.cell().every(), &[id]).await?;
    let last = heads.first().map_or(0, |head| head.position);
    let subject = match last > after {
        true => format!("no. {} to {last}", after.saturating_add(1)),
        false => format!("nothing behind no. {after}"),
    };
    record_export(app, caller, &subject).await
}

/// Records an export before any of it leaves, so that an export that cannot be recorded does not happen. Actor, token
/// and address are those of the request.
pub(crate) async fn record_export(
    app: &App,
    caller: &Caller,
    subject: &str,
) -> Result<(), ApiError> {
    let actor = caller.actor();
    let act = AuditEntry::new(caller.namespace_id, &actor, "audit.export", subject);
    audit::begin(app.engine.cell().home(), &act).await?;
    Ok(())
}

/// `GET /v1/audit/removed`.
pub(crate) async fn removed(
    State(app): State<App>,
    caller: Caller,
    Params(filter): Params<RemovedFilter>,
) -> Answered {
    let limit = page_size(filter.limit);
    let (cell, id) = (app.cell().every(), caller.namespace_id);
    let found = removal::list_removed(cell, id, filter.after, limit).await?;
    let last = found.last().filter(|_| found.len() == usize::from(limit));
    let next = last.map(|last| last.acts.last.to_string());
    let items = found.into_iter().map(|stretch| RemovedStretch {
        first: stretch.acts.first,
        last: stretch.acts.last,
        digest_before: hex::encode(stretch.acts.digest_before),
        digest: hex::encode(stretch.acts.digest),
        latest_at: stretch.latest_at,
        removed_at: stretch.removed_at,
    });
    let items: Vec<RemovedStretch> = items.collect();
    answer::ok(&Page { items, next })
}

/// Numbers of the record are positive.
fn as_uuid(id: i64) -> Uuid {
    Uuid::from_u128(u128::from(id.unsigned_abs()))
}

fn view(act: ActView) -> AuditRecord {
    let (position, digest) = act.seal.unzip();
    AuditRecord {
        id: act.id,
        at: act.at,
        actor: act.actor,
        action: act.action,
        subject: act.subject,
        reason: act.reason,
        run: act.run,
        token: act.token,
        address: act.address,
        old_digest: act.old_digest.map(hex::encode),
        new_digest: act.new_digest.map(hex::encode),
        position,
        digest: digest.map(hex::encode),
    }
}
