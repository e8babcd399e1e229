//! Counts of what happened, and what waits for people: neither counts rows without a limit.

use axum::extract::State;
use semel_api::Code;
use semel_api::types::{
    NamespaceHealth, Overview, SeriesFilter, Tallies, TallyCount, TallyFilter, TallyPoint,
    TallySeries, WaitingCount,
};
use semel_model::Span;
use semel_store::overview::{self, WAITING_MAX, WaitingView};
use semel_store::tallies::{self, IntervalSum, TallySum};

use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::query::Params;

/// How long a time is summed, unless another is asked for.
const LAST_SECS: u64 = 86_400;

/// The longest time that is summed: what is older is gone.
const LAST_SECS_MAX: u64 = 90 * 86_400;

/// The shortest time that is summed: what is counted is counted by the minute.
const LAST_SECS_MIN: u64 = 60;

/// How many seconds are meant: a day, unless something else is asked for.
fn secs_of(last: Option<Span>) -> u64 {
    let secs = last.map_or(LAST_SECS, |last| last.as_millis() / 1_000);
    secs.clamp(LAST_SECS_MIN, LAST_SECS_MAX)
}

/// `GET /v1/tallies`.
pub(crate) async fn sum(
    State(app): State<App>,
    caller: Caller,
    Params(asked): Params<TallyFilter>,
) -> Answered {
    let secs = secs_of(asked.last);
    let flow = asked.flow.as_ref().map(|flow| flow.as_str());
    let home = app.cell().home();
    let (since, found) = match (asked.steps, flow) {
        (true, Some(flow)) => tallies::sum_of_steps(home, caller.namespace_id, flow, secs).await?,
        (true, None) => {
            let detail = "`steps` needs a `flow`: name the one whose steps are meant";
            return Err(ApiError::new(Code::QueryInvalid, detail));
        }
        (false, flow) => tallies::sum(home, caller.namespace_id, secs, flow).await?,
    };
    let view = |it: TallySum| TallyCount {
        flow: it.flow,
        step: it.step,
        what: it.what,
        count: it.count,
    };
    answer::ok(&Tallies {
        since,
        items: found.into_iter().map(view).collect(),
    })
}

/// `GET /v1/tallies/series`.
pub(crate) async fn series(
    State(app): State<App>,
    caller: Caller,
    Params(asked): Params<SeriesFilter>,
) -> Answered {
    let secs = secs_of(asked.last);
    let flow = asked.flow.as_ref().map(|flow| flow.as_str());
    let (home, id) = (app.cell().home(), caller.namespace_id);
    let found = tallies::sum_series(home, id, secs, flow).await?;
    let view = |it: IntervalSum| TallyPoint {
        at: it.at,
        what: it.what,
        count: it.count,
    };
    answer::ok(&TallySeries {
        since: found.since,
        every: Span::from_secs(found.every_secs),
        items: found.sums.into_iter().map(view).collect(),
    })
}

/// `GET /v1/overview`.
pub(crate) async fn waiting(State(app): State<App>, caller: Caller) -> Answered {
    let (found, health) = overview::get_overview(app.cell().every(), caller.namespace_id).await?;
    let view = |it: WaitingView| WaitingCount {
        what: it.what.as_str().to_owned(),
        count: it.count.min(WAITING_MAX),
        has_more: it.count > WAITING_MAX,
        since: it.since,
    };
    let some = found.into_iter().filter(|it| it.count > 0);
    answer::ok(&Overview {
        waiting: some.map(view).collect(),
        health: NamespaceHealth {
            servers: health.servers,
            late_services: i64::try_from(app.engine.count_late_services()).unwrap_or(i64::MAX),
            due: health.due.min(WAITING_MAX),
            has_more_due: health.due > WAITING_MAX,
            due_since: health.due_since,
            refused: health.refused.min(WAITING_MAX),
            has_more_refused: health.refused > WAITING_MAX,
            refused_at: health.refused_at,
            undelivered: health.undelivered.min(WAITING_MAX),
            has_more_undelivered: health.undelivered > WAITING_MAX,
            undelivered_at: health.undelivered_at,
        },
    })
}
