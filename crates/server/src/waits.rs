//! Waits: list, and complete one in place of its callback.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use semel_api::Code;
use semel_api::types::{Called, CompleteWait, Wait, WaitFilter};
use semel_engine::CallbackError;
use semel_model::WaitId;
use semel_store::waits::{self, WaitView};

use crate::answer::{Answered, read_json};
use crate::app::App;
use crate::auth::Caller;
use crate::body::Payload;
use crate::commands::{self, Command, Reply};
use crate::cursor;
use crate::error::ApiError;
use crate::list_memory::ListMemory;
use crate::payloads;
use crate::query::{Named, Params, page_size};

/// `GET /v1/waits`.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(filter): Params<WaitFilter>,
) -> Answered {
    let limit = page_size(filter.limit);
    let before = cursor::read(filter.cursor.as_deref())?;
    let (cell, id, all) = (app.cell(), caller.namespace_id, filter.all);
    let memory = ListMemory::take(&app, caller.namespace_id).await?;
    let found = match filter.run {
        Some(run) => waits::list_of_run(cell.of(run), id, run, all, before, limit).await?,
        None => waits::list(cell.every(), id, all, before, limit).await?,
    };
    let next = found.next.map(cursor::write_position);
    payloads::page(&caller, memory, &found.items, view, next)
}

/// `GET /v1/waits/{wait}`.
pub(crate) async fn show(State(app): State<App>, caller: Caller, wait: Named) -> Answered {
    let id: WaitId = wait.read(Code::WaitNotFound)?;
    let found = waits::find(app.cell().of(id), caller.namespace_id, id).await?;
    let found = found.ok_or_else(|| ApiError::plain(Code::WaitNotFound))?;
    payloads::ok(&caller, view(&found))
}

/// `POST /v1/waits/{wait}/complete`.
pub(crate) async fn complete(
    State(app): State<App>,
    caller: Caller,
    wait: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let id: WaitId = wait.read(Code::WaitNotFound)?;
    let (CompleteWait { payload }, body) = payload.read()?;
    let command = Command {
        verb: "complete",
        subject: wait.as_str(),
        body: &body,
        headers: &headers,
    };
    let (engine, actor) = (app.engine.clone(), caller.actor());
    let namespace_id = caller.namespace_id;
    commands::once(app, &caller, command, async move {
        let called = engine
            .complete_wait(namespace_id, id, payload, &actor)
            .await
            .map_err(|error| refuse(error, Code::WaitNotFound))?;
        let reply = Reply::new(StatusCode::OK, &view_called(&called))?;
        Ok(reply.replayed_if(called.replayed))
    })
    .await
}

/// The outcome of a callback, in its wire form.
pub(crate) fn view_called(called: &semel_engine::Called) -> Called {
    Called {
        run: called.run,
        wait: called.wait,
        accepted: true,
    }
}

/// Why a callback was refused; `missing` is the code where there is no such wait.
pub(crate) fn refuse(error: CallbackError, missing: Code) -> ApiError {
    match error {
        CallbackError::Unknown => ApiError::plain(missing),
        CallbackError::NotJson(detail) => ApiError::new(Code::BodyNotJson, detail),
        CallbackError::Unavailable(cause) => ApiError::database(&cause),
    }
}

/// A wait in its wire form.
pub(crate) fn view(wait: &WaitView) -> Wait {
    Wait {
        id: wait.id,
        run: wait.run,
        step: wait.step.clone(),
        state: wait.state.as_str().to_owned(),
        opened_at: wait.opened_at,
        until: wait.until,
        ended_at: wait.ended_at,
        payload: read_json(wait.payload.as_deref()),
    }
}
