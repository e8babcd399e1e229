//! Rehearsals: ask for one, and see how far it is.

use axum::extract::State;
use semel_api::Code;
use semel_api::types::{AskRehearsal, Page, Rehearsal, RehearsalFilter};
use semel_model::Span;
use semel_rehearse::{RehearsalRequest, RehearseError, Selection};
use semel_store::flows;
use semel_store::rehearsals::{self, RehearsalView};
use uuid::Uuid;

use crate::answer::{self, Answered, read_json};
use crate::app::App;
use crate::auth::Caller;
use crate::body::Payload;
use crate::error::ApiError;
use crate::query::{Named, Params};

/// `PUT /v1/rehearsals/{rehearsal}`: the id is the client's, so that asking twice is asking once.
pub(crate) async fn ask(
    State(app): State<App>,
    caller: Caller,
    id: Named,
    payload: Payload,
) -> Answered {
    let id: Uuid = id.read(Code::RehearsalNotFound)?;
    let (ask, _): (AskRehearsal, _) = payload.read()?;
    let request = RehearsalRequest {
        id,
        namespace_id: caller.namespace_id,
        asked_by: caller.actor(),
        file: ask.file,
        source: ask.source,
        selection: Selection {
            example: ask.example,
            fault: ask.fault,
            seed: ask.seed,
        },
    };
    app.rehearsals.ask(request).await?;
    found(&app, &caller, id).await
}

/// `GET /v1/rehearsals/{rehearsal}`.
pub(crate) async fn show(State(app): State<App>, caller: Caller, id: Named) -> Answered {
    found(&app, &caller, id.read(Code::RehearsalNotFound)?).await
}

/// Nothing is known about it: perhaps because there is no such flow or release.
async fn must_exist(
    app: &App,
    caller: &Caller,
    flow: &str,
    release: Option<i32>,
) -> Result<(), ApiError> {
    let (home, namespace_id) = (app.cell().home(), caller.namespace_id);
    if flows::find(home, namespace_id, flow).await?.is_none() {
        return Err(ApiError::plain(Code::FlowNotFound));
    }
    let Some(number) = release else {
        return Ok(());
    };
    let home = app.cell().home();
    let known = flows::find_numbered(home, namespace_id, flow, number).await?;
    known
        .map(drop)
        .ok_or_else(|| ApiError::plain(Code::ReleaseNotFound))
}

/// `GET /v1/flows/{flow}/rehearsals`.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    flow: Named,
    Params(filter): Params<RehearsalFilter>,
) -> Answered {
    let name = flow.flow()?;
    let (home, namespace_id) = (app.cell().home(), caller.namespace_id);
    let found = match filter.release {
        Some(number) => {
            rehearsals::list_of_release(home, namespace_id, (name.as_str(), number)).await?
        }
        None => rehearsals::list_of_flow(home, namespace_id, name.as_str()).await?,
    };
    if found.is_empty() {
        must_exist(&app, &caller, name.as_str(), filter.release).await?;
    }
    answer::ok(&Page {
        items: found.into_iter().map(to_wire).collect(),
        next: None,
    })
}

async fn found(app: &App, caller: &Caller, id: Uuid) -> Answered {
    let view = rehearsals::find(app.cell().home(), caller.namespace_id, id).await?;
    match view {
        Some(view) => answer::ok(&to_wire(view)),
        None => Err(ApiError::plain(Code::RehearsalNotFound)),
    }
}

fn to_wire(view: RehearsalView) -> Rehearsal {
    Rehearsal {
        id: view.id.to_string(),
        flow: view.flow,
        digest: view.digest,
        state: view.state,
        done: view.done,
        total: view.total,
        report: read_json(view.report.as_deref()),
        problem: view.problem,
        whole: view.whole,
        asked_at: view.asked_at,
        ended_at: view.ended_at,
    }
}

/// When a server that has many rehearsals may have room for another, in seconds.
const BUSY_REST_SECS: u64 = 30;

impl From<RehearseError> for ApiError {
    fn from(error: RehearseError) -> Self {
        match error {
            RehearseError::Invalid(said) => Self::new(Code::FlowInvalid, said),
            RehearseError::Database(error) => error.into(),
            RehearseError::Busy => {
                let busy = Self::new(Code::TooManyRequests, error.to_string());
                busy.retry_in(Span::from_secs(BUSY_REST_SECS))
            }
            RehearseError::NoExamples => Self::new(Code::BodyInvalid, error.to_string()).with_hint(
                "`semel explain rehearse` shows an example; `semel flow promote` of a flow without one prints one to \
                 begin with."
                    .to_owned(),
            ),
            RehearseError::UnknownExample(_) => Self::new(Code::BodyInvalid, error.to_string())
                .with_hint("The examples stand under `examples` in the flow's file.".to_owned()),
            RehearseError::UnknownFault(_) => Self::new(Code::BodyInvalid, error.to_string())
                .with_hint("`semel explain rehearse` lists the faults.".to_owned()),
            RehearseError::Create(_)
            | RehearseError::Schema(_)
            | RehearseError::Start(_)
            | RehearseError::Secret(_)
            | RehearseError::Threads(_)
            | RehearseError::Stopped
            | RehearseError::Restless => Self::new(Code::Internal, error.to_string()),
        }
    }
}
