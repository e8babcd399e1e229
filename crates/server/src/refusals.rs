//! Deliveries that were refused, as far as they are recorded.

use axum::extract::State;
use semel_api::Code;
use semel_api::types::{Page, RefusedDelivery, RefusedFilter};
use semel_store::refused_deliveries::{self, RefusedView};

use crate::answer::Answered;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::payloads;
use crate::query::{Params, page_size};

/// `GET /v1/refusals`.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(filter): Params<RefusedFilter>,
) -> Answered {
    let limit = page_size(filter.limit);
    let wanted = refused_deliveries::RefusedFilter {
        flow: filter.flow.as_deref(),
        code: filter.code.as_deref(),
        since: filter.since,
        until: filter.until,
        before: read_cursor(filter.cursor.as_deref())?,
    };
    let (cell, id) = (app.cell().every(), caller.namespace_id);
    let found = refused_deliveries::list(cell, id, &wanted, limit).await?;
    let last = found.last().filter(|_| found.len() == usize::from(limit));
    let next = last.map(|last| last.id.to_string());
    let items = found.into_iter().map(view).collect();
    payloads::ok(&caller, Page::<RefusedDelivery> { items, next })
}

fn read_cursor(text: Option<&str>) -> Result<Option<i64>, ApiError> {
    let odd = |_| {
        ApiError::new(
            Code::QueryInvalid,
            "`cursor` is not one that this server gave",
        )
    };
    text.map(|text| text.parse().map_err(odd)).transpose()
}

fn view(refused: RefusedView) -> RefusedDelivery {
    RefusedDelivery {
        flow: refused.flow,
        at: refused.at,
        code: refused.code,
        message: Some(refused.message),
    }
}
