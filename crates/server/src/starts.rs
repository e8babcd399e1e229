//! `POST /v1/flows/{flow}/runs`: starts by programs and people.
//!
//! Where the trigger has a `key`, that names the run, and an `Idempotency-Key` names the request:
//! the same request gets the same run, another one under the same header is refused. Where the
//! trigger has none, the caller's key is the run's, just as it stands. Either way a start in flight
//! is joined by its repeats, which all get the same run.

mod request;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use semel_api::Code;
use semel_api::types::RunStatus;
use semel_engine::memory::Portion;
use semel_engine::{Accepted, Intake, KeySource, Start};
use semel_model::run::RunState;
use semel_model::{FlowName, Key, Span, TriggerKind};
use semel_store::runs as store_runs;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::answer::Answered;
use crate::app::App;
use crate::auth::Caller;
use crate::body::Payload;
use crate::commands::KEY_HEADER;
use crate::error::ApiError;
use crate::intake;
use crate::query::{Named, Params, patience, read_key};
use crate::runs;

/// The header that tells a person's start from a program's.
const TRIGGER_HEADER: &str = "semel-trigger";

/// What [`semel_api::types::StartRun`] is to its writer. The input stays the text that it came
/// as, so that the engine can read it strictly.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked<'a> {
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    trigger: Option<TriggerKind>,
}

/// `?wait=`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Patience {
    #[serde(default)]
    wait: Option<Span>,
}

/// Starts a run, or finds the one that its key has.
pub(crate) async fn start(
    State(app): State<App>,
    caller: Caller,
    flow: Named,
    Params(Patience { wait }): Params<Patience>,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let asked = read_asked(&payload)?;
    let named = agree_on_key(&headers, asked.key.as_deref())?;
    let key_in_body = asked.key.is_some();
    let mut start = Start {
        by: Some(caller.token.clone()),
        namespace_id: caller.namespace_id,
        namespace: caller.namespace.clone(),
        flow: flow.flow()?,
        trigger: read_trigger(&headers, asked.trigger)?,
        input: asked
            .input
            .map_or("null", RawValue::get)
            .as_bytes()
            .to_vec(),
        key: None,
    };
    // The input is a copy, so the body is freed at once.
    let (_, memory) = payload.into_parts();
    let source = app
        .engine
        .key_source(start.namespace_id, &start.flow, start.trigger);
    match (source.await?, named) {
        (KeySource::Caller, named) => start.key = named,
        (KeySource::Flow, None) => {}
        (KeySource::Flow, Some(_)) if key_in_body => {
            return Err(ApiError::plain(Code::KeyDeclared));
        }
        (KeySource::Flow, Some(name)) => {
            return request::once(app, &caller, &name, (start, memory), wait).await;
        }
    }
    let taken = take_in(&app, start, memory).await?;
    tell(&app, taken, wait).await
}

async fn take_in(app: &App, start: Start, memory: Vec<Portion>) -> Result<Intake, ApiError> {
    let engine = app.engine.clone();
    let (namespace_id, flow) = (start.namespace_id, start.flow.clone());
    let work = async move {
        // Returned with the start, which may outlive its caller's timeout.
        let _memory = memory;
        engine.start_run(start).await
    };
    match intake::take_in(app, work).await {
        Err(refusal) => Err(advise(app, namespace_id, &flow, refusal).await),
        taken => taken,
    }
}

/// Where the run that a key belongs to did not succeed, advises to free the key.
async fn advise(app: &App, namespace_id: i32, flow: &FlowName, refusal: ApiError) -> ApiError {
    let Some(run) = refusal.mismatched() else {
        return refusal;
    };
    match store_runs::find(app.cell().of(run), namespace_id, run).await {
        Ok(Some(view))
            if matches!(
                view.state,
                RunState::Failed | RunState::Cancelled | RunState::Superseded
            ) =>
        {
            let hint = format!(
                "That run is {}. To start it anew with this payload, free its key first: \
                 `semel key drop {flow} KEY --reason …`, with the key that the run has.",
                view.state
            );
            refusal.with_hint(hint)
        }
        Ok(_) | Err(_) => refusal,
    }
}

async fn tell(app: &App, taken: Intake, wait: Option<Span>) -> Answered {
    match taken {
        Intake::Accepted(mut accepted) => {
            follow(app, &mut accepted, wait).await?;
            let run_status = run_status(app, &accepted).await?;
            intake::receipt_with_status(status(&accepted), &accepted, run_status, false)
        }
        Intake::Held(accepted) => intake::receipt(StatusCode::ACCEPTED, &accepted, true),
        Intake::Ignored => intake::ignored(),
        Intake::Stale(stale) => intake::stale(&stale),
    }
}

/// The run's state: of a repeat, which may come at any time, as exact as in `run show`.
async fn run_status(app: &App, accepted: &Accepted) -> Result<RunStatus, ApiError> {
    if !accepted.replayed || accepted.state.is_ended() {
        return Ok(accepted.state.into());
    }
    let namespace_id =
        store_runs::find_namespace(app.cell().of(accepted.run), accepted.run).await?;
    let view = match namespace_id {
        Some(id) => store_runs::find(app.cell().of(accepted.run), id, accepted.run).await?,
        None => None,
    };
    Ok(view.map_or_else(|| accepted.state.into(), |view| runs::run_status(&view)))
}

fn status(accepted: &Accepted) -> StatusCode {
    if accepted.state.is_ended() {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    }
}

/// Waits for the run's end, together with other requests that wait for it, and updates the answer.
async fn follow(app: &App, accepted: &mut Accepted, wait: Option<Span>) -> Result<(), ApiError> {
    let patience = patience(wait, app.options.wait_max);
    if patience.is_zero() || accepted.state.is_ended() {
        return Ok(());
    }
    if let Some(snapshot) = runs::await_end(app, accepted.run, patience).await? {
        accepted.state = snapshot.state;
        accepted.result = snapshot.result;
        accepted.fault = snapshot.fault;
    }
    Ok(())
}

fn read_asked(payload: &Payload) -> Result<Asked<'_>, ApiError> {
    if payload.0.is_empty() {
        return Ok(Asked::default());
    }
    serde_json::from_slice(&payload.0).map_err(|error| {
        let code = match error.classify() {
            serde_json::error::Category::Data => Code::BodyInvalid,
            serde_json::error::Category::Io
            | serde_json::error::Category::Syntax
            | serde_json::error::Category::Eof => Code::BodyNotJson,
        };
        ApiError::new(code, error.to_string())
    })
}

fn read_trigger(headers: &HeaderMap, field: Option<TriggerKind>) -> Result<TriggerKind, ApiError> {
    let named = headers.get(TRIGGER_HEADER).map(|value| value.as_bytes());
    match (named, field) {
        (Some(b"manual"), _) | (None, Some(TriggerKind::Manual)) => Ok(TriggerKind::Manual),
        (Some(b"api"), _) | (None, None | Some(TriggerKind::Api)) => Ok(TriggerKind::Api),
        (Some(_), _)
        | (
            None,
            Some(
                TriggerKind::Webhook
                | TriggerKind::Event
                | TriggerKind::Schedule
                | TriggerKind::Reconcile
                | TriggerKind::Call,
            ),
        ) => Err(ApiError::new(
            Code::BodyInvalid,
            "a start through the API is `api` or `manual`",
        )),
    }
}

/// The key that the request names, in its header or its body. Two that differ are a mistake, which
/// precedence must not hide.
fn agree_on_key(headers: &HeaderMap, field: Option<&str>) -> Result<Option<Key>, ApiError> {
    let header = headers.get(KEY_HEADER).map(|value| value.as_bytes());
    let field = field.map(str::as_bytes);
    match (header, field) {
        (Some(header), Some(field)) if header != field => Err(ApiError::new(
            Code::KeyInvalid,
            "the header and the body name different keys",
        )),
        (Some(bytes), _) | (None, Some(bytes)) => read_key(bytes).map(Some),
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyed(key: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(KEY_HEADER, key.parse().unwrap());
        headers
    }

    #[test]
    fn a_key_is_taken_as_it_stands() {
        let key = agree_on_key(&keyed("\"Order 42\""), None).unwrap().unwrap();

        assert_eq!(key.as_bytes(), b"\"Order 42\"");
    }

    #[test]
    fn two_keys_that_differ_are_refused() {
        let refusal = agree_on_key(&keyed("a"), Some("b")).unwrap_err();

        assert_eq!(refusal.problem().code(), Some(Code::KeyInvalid));
    }

    #[test]
    fn the_input_stays_the_text_that_it_came_as() {
        let payload = Payload::of(b"{\"input\": {\"a\":1,\"a\":2} }");

        let asked = read_asked(&payload).unwrap();

        assert_eq!(asked.input.unwrap().get(), "{\"a\":1,\"a\":2}");
    }

    #[test]
    fn a_start_is_by_a_program_unless_a_person_says_so() {
        let mut by_person = HeaderMap::new();
        by_person.insert(TRIGGER_HEADER, "manual".parse().unwrap());

        let none = HeaderMap::new();
        let manual = Some(TriggerKind::Manual);
        assert_eq!(read_trigger(&none, None).unwrap(), TriggerKind::Api);
        assert_eq!(read_trigger(&none, manual).unwrap(), TriggerKind::Manual);
        assert_eq!(read_trigger(&by_person, None).unwrap(), TriggerKind::Manual);
        assert!(read_trigger(&none, Some(TriggerKind::Webhook)).is_err());
    }
}
