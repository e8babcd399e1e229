//! The values of a begin, in the order of its statement.

use semel_model::Span;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{NamedBegin, NamedHolder};

/// The columns of a begin that its request has in another form.
pub(super) struct BeginColumns<'a> {
    scope: String,
    key: &'a [u8],
    holder: Uuid,
    name: Option<&'a str>,
    caller: Option<Uuid>,
    run: Option<Uuid>,
    step: Option<&'a str>,
    item: Option<&'a str>,
    generation: Option<i32>,
    on_doubt: Option<&'static str>,
    lease_ms: Option<i64>,
    keep_ms: i64,
}

impl<'a> BeginColumns<'a> {
    pub(super) fn of(asked: &'a NamedBegin) -> Self {
        let columns = Self {
            scope: asked.name.scope().to_string(),
            key: asked.name.key().as_bytes(),
            holder: asked.holder.identity(),
            name: None,
            caller: None,
            run: None,
            step: None,
            item: None,
            generation: None,
            on_doubt: None,
            lease_ms: None,
            keep_ms: millis(asked.keep),
        };
        match &asked.holder {
            NamedHolder::Run {
                run,
                step,
                item,
                generation,
            } => Self {
                run: Some(*run.as_uuid()),
                step: Some(step),
                item: Some(item),
                generation: Some(i32::try_from(*generation).unwrap_or(i32::MAX)),
                ..columns
            },
            NamedHolder::Script {
                name,
                caller,
                lease,
                on_doubt,
                ..
            } => Self {
                name: Some(name),
                caller: Some(*caller.as_uuid()),
                on_doubt: Some(on_doubt.as_str()),
                lease_ms: Some(millis(*lease)),
                ..columns
            },
        }
    }

    pub(super) fn values(&'a self, asked: &'a NamedBegin) -> [&'a (dyn ToSql + Sync); 21] {
        [
            asked.id.as_uuid(),
            &asked.namespace_id,
            &self.scope,
            &self.key,
            &asked.action.kind,
            &asked.action.destination,
            &asked.action.method,
            asked.fingerprint.as_uuid(),
            &self.holder,
            &self.name,
            &self.run,
            &self.step,
            &self.item,
            &self.generation,
            &self.on_doubt,
            &self.lease_ms,
            &self.keep_ms,
            &self.caller,
            &asked.seq,
            &asked.renews,
            &asked.endless,
        ]
    }
}

/// At least one: nothing is held or remembered for no time at all.
fn millis(span: Span) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX).max(1)
}
