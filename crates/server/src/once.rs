//! Named effects of scripts: begin, heartbeat, done, fail, get, list, settle, redo.
//!
//! Scope and key are in the body, since a key may be any text. The nonce of a begin, and the token that
//! everything else names, are what makes a repeat safe here. Only the API token that began reports.

use axum::extract::State;
use jiff::Timestamp;
use semel_api::Code;
use semel_api::types::{
    BeginOnce, BegunOnce, FailOnce, FinishOnce, FreeOnce, GetOnce, HeartbeatOnce, OnceEffect,
    OnceFilter, OnceHold, Page, RedoOnce, RenewedOnce, ReportedOnce, SettleOnce,
};
use semel_engine::{OnceBegin, OnceBegun, OnceError, OnceFailure, OnceSubject, SeenIntent};
use semel_model::named_effect::OnDoubt;
use semel_model::{EffectId, EffectName, EffectScope, Fingerprint, Label, NamedEffectState, Span};
use semel_store::audit::origin::ActOrigin;
use semel_store::named_effects::{
    self, HolderView, NamedEffectFilter, NamedEffectView, NamedResult, NamedSettlement,
    RETRY_AFTER_LEASE,
};

use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;
use crate::body::Payload;
use crate::cursor;
use crate::error::ApiError;
use crate::payloads;
use crate::query::{Named, Params, page_size};

/// How long a process may be silent that does not say.
const LEASE_DEFAULT: Span = Span::from_const_secs(60);

/// How long an effect is remembered whose process does not say: a year.
const KEEP_DEFAULT: Span = Span::from_const_secs(365 * 86_400);

/// `POST /v1/once/begin`.
pub(crate) async fn begin(State(app): State<App>, caller: Caller, payload: Payload) -> Answered {
    let (asked, _) = payload.read::<BeginOnce>()?;
    let of = subject(&caller, asked.scope, &asked.key)?;
    let lease = asked.lease.unwrap_or(LEASE_DEFAULT);
    let begin = OnceBegin {
        holder: asked.holder,
        holder_name: asked.holder_name,
        fingerprint: Fingerprint::of(&asked.request),
        lease,
        on_doubt: asked.on_doubt.unwrap_or(OnDoubt::Ask),
        keep: asked.keep.unwrap_or(KEEP_DEFAULT),
    };
    let engine = app.engine.clone();
    let begun = apart(async move { engine.begin_once(&of, begin).await }).await?;
    answer::ok(&match begun {
        OnceBegun::First(hold) => BegunOnce {
            first: true,
            hold: Some(OnceHold {
                token: hold.token,
                effect_key: hold.key,
                generation: hold.generation,
                lease,
                lease_until: hold.lease_until,
            }),
            effect: None,
        },
        OnceBegun::Found(found) => BegunOnce {
            first: false,
            hold: None,
            effect: Some(payloads::of_once(&caller, view(&found))),
        },
    })
}

/// `POST /v1/once/heartbeat`.
pub(crate) async fn heartbeat(
    State(app): State<App>,
    caller: Caller,
    payload: Payload,
) -> Answered {
    let (asked, _) = payload.read::<HeartbeatOnce>()?;
    let of = subject(&caller, asked.scope, &asked.key)?;
    let lease_until = app.engine.heartbeat_once(&of, asked.token).await?;
    answer::ok(&RenewedOnce { lease_until })
}

/// `POST /v1/once/done`.
pub(crate) async fn finish(State(app): State<App>, caller: Caller, payload: Payload) -> Answered {
    let (asked, _) = payload.read::<FinishOnce>()?;
    let of = subject(&caller, asked.scope, &asked.key)?;
    let happened = NamedResult {
        result: asked.result,
        external_id: asked.external_id,
    };
    let engine = app.engine.clone();
    reported(apart(async move { engine.finish_once(&of, asked.token, &happened).await }).await?)
}

/// `POST /v1/once/fail`.
pub(crate) async fn fail(State(app): State<App>, caller: Caller, payload: Payload) -> Answered {
    let (asked, _) = payload.read::<FailOnce>()?;
    let of = subject(&caller, asked.scope, &asked.key)?;
    let failure = OnceFailure {
        code: asked.code.unwrap_or_else(|| "failed".to_owned()),
        message: asked.message,
        in_doubt: asked.in_doubt,
    };
    let engine = app.engine.clone();
    reported(apart(async move { engine.fail_once(&of, asked.token, &failure).await }).await?)
}

/// `POST /v1/once/get`.
pub(crate) async fn get(State(app): State<App>, caller: Caller, payload: Payload) -> Answered {
    let (asked, _) = payload.read::<GetOnce>()?;
    let of = subject(&caller, asked.scope, &asked.key)?;
    let found = view(&app.engine.get_once(&of).await?);
    answer::ok(&payloads::of_once(&caller, found))
}

/// `GET /v1/once/{effect}`: by the key that the destination was sent, of any generation.
pub(crate) async fn show(State(app): State<App>, caller: Caller, effect: Named) -> Answered {
    let key: EffectId = effect.read(Code::OnceNotFound)?;
    let (cell, namespace_id) = (app.cell().of(key), caller.namespace_id);
    let found = named_effects::find_by_key(cell, namespace_id, key).await?;
    let found = found.ok_or_else(|| ApiError::plain(Code::OnceNotFound))?;
    answer::ok(&payloads::of_once(&caller, view(&found)))
}

/// `GET /v1/once`.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(asked): Params<OnceFilter>,
) -> Answered {
    let limit = page_size(asked.limit);
    let filter = NamedEffectFilter {
        scope: asked.scope.map(EffectScope::Once),
        state: asked.state,
    };
    let after = cursor::read(asked.cursor.as_deref())?;
    let (every, namespace_id) = (app.cell().every(), caller.namespace_id);
    let found = match asked.doubts {
        Some(true) => named_effects::list_doubts(every, namespace_id, after, limit).await?,
        Some(false) | None => {
            named_effects::list(every, namespace_id, &filter, after, limit).await?
        }
    };
    let shown = found.items.iter().map(view);
    answer::ok(&Page {
        items: shown.map(|it| payloads::of_once(&caller, it)).collect(),
        next: found.next.map(|(at, id)| cursor::write(at, &id)),
    })
}

/// `POST /v1/once/settle`.
pub(crate) async fn settle(State(app): State<App>, caller: Caller, payload: Payload) -> Answered {
    let (asked, _) = payload.read::<SettleOnce>()?;
    let of = subject(&caller, asked.scope.clone(), &asked.key)?;
    let settlement = read_settlement(&asked)?;
    let (engine, actor) = (app.engine.clone(), caller.actor());
    let settled = apart(async move {
        let (token, reason) = (asked.token, &asked.reason);
        let settled = engine.settle_once(&of, token, &settlement, reason, &actor);
        let repeated = settled.await?;
        let happened = asked.happened;
        tracing::info!(name = %of.name, happened, actor, "doubt of a script settled");
        Ok(repeated)
    });
    reported(settled.await?)
}

/// `POST /v1/once/redo`.
pub(crate) async fn redo(State(app): State<App>, caller: Caller, payload: Payload) -> Answered {
    let (asked, _) = payload.read::<RedoOnce>()?;
    let of = subject(&caller, asked.scope.clone(), &asked.key)?;
    let seen = read_intent(&asked)?;
    let (engine, actor) = (app.engine.clone(), caller.actor());
    let redone = apart(async move {
        let redone = engine.redo_once(&of, seen, &asked.reason, &actor);
        let repeated = redone.await?;
        tracing::info!(name = %of.name, actor, "done effect of a script may be performed again");
        Ok(repeated)
    });
    reported(redone.await?)
}

/// `POST /v1/once/free`.
pub(crate) async fn free(State(app): State<App>, caller: Caller, payload: Payload) -> Answered {
    let (asked, _) = payload.read::<FreeOnce>()?;
    let (engine, asking) = (app.engine.clone(), caller.clone());
    let freed = apart(async move {
        let (actor, key) = (asking.actor(), asked.effect_key);
        let freed = engine.free_once(asking.acting(&actor), key, &asked.reason);
        let repeated = freed.await?;
        tracing::info!(effect.key = %key, actor, "key taken from a quarantined run");
        Ok(repeated)
    });
    reported(freed.await?)
}

/// The work is a task of its own: a process that hangs up does not stop it half way.
async fn apart<T: Send + 'static>(
    work: impl Future<Output = Result<T, OnceError>> + Send + 'static,
) -> Result<T, ApiError> {
    match tokio::spawn(ActOrigin::carry(work)).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(ApiError::internal("a report of a script panicked")),
    }
}

fn reported(repeated: bool) -> Answered {
    let mut response = answer::ok(&ReportedOnce { accepted: true })?;
    if repeated {
        answer::mark_replayed(&mut response);
    }
    Ok(response)
}

fn subject(caller: &Caller, scope: Option<Label>, key: &str) -> Result<OnceSubject, ApiError> {
    let scope = scope.map_or(EffectScope::Shared, EffectScope::Once);
    let name = EffectName::new(scope, key.as_bytes());
    let name = name.map_err(|error| ApiError::new(Code::OnceKeyInvalid, error.to_string()))?;
    Ok(OnceSubject {
        namespace_id: caller.namespace_id,
        namespace: caller.namespace.clone(),
        caller: caller.id,
        name,
    })
}

fn read_intent(asked: &RedoOnce) -> Result<SeenIntent, ApiError> {
    match (asked.token, asked.effect_key) {
        (Some(token), _) => Ok(SeenIntent::Token(token)),
        (None, Some(key)) => Ok(SeenIntent::Key(key)),
        (None, None) => Err(ApiError::new(
            Code::BodyInvalid,
            "`token` or `effect_key` says which intent is redone",
        )),
    }
}

fn read_settlement(asked: &SettleOnce) -> Result<NamedSettlement, ApiError> {
    let brought = asked.result.is_some() || asked.external_id.is_some();
    match asked.happened {
        true => Ok(NamedSettlement::Happened(NamedResult {
            result: asked.result.clone(),
            external_id: asked.external_id.clone(),
        })),
        false if brought => Err(ApiError::new(
            Code::BodyInvalid,
            "`external_id` and `result` belong to an effect that happened",
        )),
        false => Ok(NamedSettlement::DidNotHappen),
    }
}

pub(crate) fn view(found: &NamedEffectView) -> OnceEffect {
    let token = matches!(found.holder, HolderView::Script { .. }).then_some(found.token);
    let (holder_name, run, step, lease, on_doubt) = match &found.holder {
        HolderView::Run { run, step, .. } => (None, Some(*run), Some(step.clone()), None, None),
        HolderView::Script {
            name,
            lease,
            on_doubt,
            ..
        } => (
            Some(name.clone()),
            None,
            None,
            Some(*lease),
            Some(*on_doubt),
        ),
    };
    OnceEffect {
        id: found.id,
        scope: found.name.scope().to_string(),
        key: found.name.key().text(),
        state: found.state,
        effect_key: found.key(),
        generation: found.generation,
        token,
        holder_name,
        run,
        step,
        on_doubt,
        lease,
        lease_until: found.lease_until,
        begun_at: found.begun_at,
        heartbeat_at: found.heartbeat_at,
        retry_at: retry_at(found),
        settled_at: found.settled_at,
        settled_by: found.settled_by.clone(),
        expires_at: found.expires_at,
        result: found.result.clone(),
        external_id: found.external_id.clone(),
        fault: found.fault.clone(),
        note: found.note.clone(),
    }
}

/// When another process may follow one that was lost.
fn retry_at(found: &NamedEffectView) -> Option<Timestamp> {
    match (&found.holder, found.state) {
        (
            HolderView::Script {
                lease,
                on_doubt: OnDoubt::Retry,
                ..
            },
            NamedEffectState::InDoubt,
        ) => Some(found.heartbeat_at + lease.to_duration() + RETRY_AFTER_LEASE),
        (HolderView::Script { .. } | HolderView::Run { .. }, _) => None,
    }
}

impl From<OnceError> for ApiError {
    fn from(error: OnceError) -> Self {
        let detail = error.to_string();
        match error {
            OnceError::Unknown => Self::plain(Code::OnceNotFound),
            OnceError::Mismatch { found } => {
                let detail = format!(
                    "this key was used with another command, and its effect is {}",
                    found.state
                );
                Self::new(Code::OnceMismatch, detail)
            }
            OnceError::NotHeld { .. } | OnceError::HeldByScript => {
                Self::new(Code::OnceNotHeld, detail)
            }
            OnceError::NotInDoubt { .. } => Self::new(Code::OnceNotInDoubt, detail),
            OnceError::NotDone { .. } => Self::new(Code::OnceNotDone, detail),
            OnceError::HeldByRun { run } => Self::new(Code::OnceHeldByRun, detail).about(run),
            OnceError::TooSoon { retry_in } => {
                Self::new(Code::SettleTooSoon, detail).retry_in(retry_in)
            }
            OnceError::Invalid(detail) => Self::new(Code::BodyInvalid, detail),
            OnceError::Reason(error) => error.into(),
            OnceError::Unavailable(cause) => Self::database(&cause),
        }
    }
}
