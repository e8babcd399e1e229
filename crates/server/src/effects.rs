//! Effects and doubts: list, show, settle, amend.

mod attend;
mod group;
mod listing;
mod sent;
mod sources;

pub(crate) use attend::{assign, note, snooze};
pub(crate) use group::{preview_group, settle_group};
pub(crate) use listing::list;
pub(crate) use sent::keys_sent;
pub(crate) use sources::source;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use semel_api::Code;
use semel_api::types::{
    Act, Amend, Amended, DoubtFilter, Effect, EffectReason, EffectReopened, Page, Settle, Settled,
    Verdict,
};
use semel_engine::{Amendment, OperatorStepError, SettleError, Settlement};
use semel_model::event::StepVerb;
use semel_model::{EffectId, Right, effect};
use semel_store::audit::{self, AuditView};
use semel_store::effects::{self, EffectView, Snoozing};

use crate::answer::Answered;
use crate::app::App;
use crate::auth::Caller;
use crate::body::Payload;
use crate::commands::{self, Command, Reply};
use crate::cursor;
use crate::error::ApiError;
use crate::payloads;
use crate::query::{Named, PAGE_MAX, Params, page_size};

/// `GET /v1/doubts`.
pub(crate) async fn list_doubts(
    State(app): State<App>,
    caller: Caller,
    Params(filter): Params<DoubtFilter>,
) -> Answered {
    let limit = page_size(filter.limit);
    let after = cursor::read(filter.cursor.as_deref())?;
    let (cell, namespace_id) = (app.cell().every(), caller.namespace_id);
    let snoozing = match filter.snoozed {
        None => Snoozing::Either,
        Some(true) => Snoozing::Snoozed,
        Some(false) => Snoozing::Awake,
    };
    let found = effects::list_doubts_by(cell, namespace_id, snoozing, after, limit).await?;
    let items = sent::detailed(&app, &caller, &found.items).await?;
    let next = found.next.map(cursor::write_position);
    payloads::ok(&caller, Page { items, next })
}

/// `GET /v1/effects/{effect}`.
pub(crate) async fn show(State(app): State<App>, caller: Caller, effect: Named) -> Answered {
    let id = effect.read(Code::EffectNotFound)?;
    let found = effects::find(app.cell().of(id), caller.namespace_id, id).await?;
    let found = found.ok_or_else(|| ApiError::plain(Code::EffectNotFound))?;
    let (cell, namespace_id) = (app.cell().of(found.run), caller.namespace_id);
    let acts = audit::list_of_run(cell, namespace_id, found.run, PAGE_MAX).await?;
    let about = id.to_string();
    let acts = acts.into_iter().filter(|act| act.subject == about);
    let effect = sent::whole(&app, &caller, &found).await?;
    let acts = acts.map(view_act).collect();
    payloads::ok(&caller, Effect { acts, ..effect })
}

/// `POST /v1/effects/{effect}/settle`.
pub(crate) async fn settle(
    State(app): State<App>,
    caller: Caller,
    effect: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let id: EffectId = effect.read(Code::EffectNotFound)?;
    let (settle, body) = payload.read::<Settle>()?;
    let (verdict, looked_at) = (settle.verdict, settle.attempt);
    must_undo(&caller, verdict)?;
    let settlement = read_settlement(settle)?;
    let command = Command {
        verb: "settle",
        subject: effect.as_str(),
        body: &body,
        headers: &headers,
    };
    let (engine, actor) = (app.engine.clone(), caller.actor());
    let namespace_id = caller.namespace_id;
    commands::once(app, &caller, command, async move {
        let subject = (id, looked_at);
        let settled = engine.settle_attempt(namespace_id, subject, settlement, &actor);
        settled.await?;
        tracing::info!(effect.id = %id, verdict = verdict.as_str(), actor, "doubt settled");
        let done = Settled {
            effect: id,
            verdict,
        };
        Reply::new(StatusCode::OK, &done)
    })
    .await
}

/// To settle by undoing changes the outside world: that needs the right to undo as well.
fn must_undo(caller: &Caller, verdict: Verdict) -> Result<(), ApiError> {
    match verdict == Verdict::Undo && !caller.may(Right::Redo) {
        true => Err(caller.lacks(Right::Redo)),
        false => Ok(()),
    }
}

/// `POST /v1/effects/{effect}/amend`.
pub(crate) async fn amend(
    State(app): State<App>,
    caller: Caller,
    effect: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let id: EffectId = effect.read(Code::EffectNotFound)?;
    let (amend, body) = payload.read::<Amend>()?;
    let amendment = Amendment {
        external_id: amend.external_id,
        result: amend.result,
        reason: amend.reason,
    };
    let command = Command {
        verb: "amend",
        subject: effect.as_str(),
        body: &body,
        headers: &headers,
    };
    let (engine, asking) = (app.engine.clone(), caller.clone());
    commands::once(app, &caller, command, async move {
        let actor = asking.actor();
        let run = engine.amend(asking.acting(&actor), id, &amendment).await?;
        tracing::info!(effect.id = %id, run.id = %run, actor, "settled effect amended");
        Reply::new(StatusCode::OK, &Amended { effect: id, run })
    })
    .await
}

/// `POST /v1/effects/{effect}/undo`.
pub(crate) async fn undo(
    State(app): State<App>,
    caller: Caller,
    effect: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    reopen(app, &caller, StepVerb::Undo, &effect, (&headers, payload)).await
}

/// `POST /v1/effects/{effect}/redo`.
pub(crate) async fn redo(
    State(app): State<App>,
    caller: Caller,
    effect: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    reopen(app, &caller, StepVerb::Redo, &effect, (&headers, payload)).await
}

async fn reopen(
    app: App,
    caller: &Caller,
    verb: StepVerb,
    effect: &Named,
    (headers, payload): (&HeaderMap, Payload),
) -> Answered {
    let id: EffectId = effect.read(Code::EffectNotFound)?;
    let (EffectReason { reason }, body) = payload.read()?;
    let command = Command {
        verb: verb.as_str(),
        subject: effect.as_str(),
        body: &body,
        headers,
    };
    let (engine, asking) = (app.engine.clone(), caller.clone());
    commands::once(app, caller, command, async move {
        let actor = asking.actor();
        let by = asking.acting(&actor);
        let run = engine.perform_for_operator(by, id, verb, &reason).await?;
        tracing::info!(effect.id = %id, run.id = %run, verb = verb.as_str(), actor, "effect reopened");
        Reply::new(StatusCode::ACCEPTED, &EffectReopened { effect: id, run })
    })
    .await
}

impl From<OperatorStepError> for ApiError {
    fn from(error: OperatorStepError) -> Self {
        match error {
            OperatorStepError::Unknown => Self::plain(Code::EffectNotFound),
            OperatorStepError::Unfit(_) => Self::new(Code::NotRepeatable, error.to_string()),
            OperatorStepError::Reason(error) => error.into(),
            OperatorStepError::Busy => Self::busy(),
            OperatorStepError::Unavailable(cause) => Self::database(&cause),
        }
    }
}

/// An operator's settlement, where its members fit together.
fn read_settlement(settle: Settle) -> Result<Settlement, ApiError> {
    let brought = settle.external_id.is_some() || settle.result.is_some();
    let reason = settle.reason;
    match settle.verdict {
        Verdict::Happened => Ok(Settlement::Happened {
            external_id: settle.external_id,
            result: settle.result,
            reason,
        }),
        Verdict::Undo => Ok(Settlement::Undo {
            external_id: settle.external_id,
            result: settle.result,
            reason,
        }),
        Verdict::DidNotHappen | Verdict::Fail if brought => Err(ApiError::new(
            Code::BodyInvalid,
            "`external_id` and `result` belong to an effect that happened",
        )),
        Verdict::DidNotHappen => Ok(Settlement::DidNotHappen { reason }),
        Verdict::Fail => Ok(Settlement::Fail { reason }),
    }
}

impl From<SettleError> for ApiError {
    fn from(error: SettleError) -> Self {
        match error {
            SettleError::Unknown => Self::plain(Code::EffectNotFound),
            SettleError::NotInDoubt { state } => {
                Self::new(Code::NotInDoubt, format!("the effect is {state}"))
            }
            SettleError::TriedAgain => Self::new(Code::NotInDoubt, error.to_string()),
            SettleError::TooSoon { retry_in } => {
                Self::plain(Code::SettleTooSoon).retry_in(retry_in)
            }
            SettleError::ResultNeeded(detail) => Self::new(Code::ResultNeeded, detail),
            SettleError::Changed => Self::plain(Code::DoubtsChanged),
            SettleError::NotAmendable(detail) => Self::new(Code::NotAmendable, detail),
            SettleError::Invalid(detail) => Self::new(Code::BodyInvalid, detail),
            SettleError::Reason(error) => error.into(),
            SettleError::Busy => Self::busy(),
            SettleError::Inconsistent(_) => Self::new(Code::JournalInconsistent, error.to_string()),
            SettleError::Unavailable(cause) => Self::database(&cause),
        }
    }
}

/// An effect in its wire form.
pub(crate) fn view(effect: &EffectView) -> Effect {
    Effect {
        id: effect.id,
        run: effect.run,
        step: effect.step.clone(),
        kind: effect.kind.clone(),
        guard: effect.guard.clone(),
        state: effect.state,
        attempt: effect.attempt,
        intended_at: effect.intended_at,
        first_intended_at: None,
        // A doubt is no outcome.
        settled_at: effect
            .settled_at
            .filter(|_| effect.state != effect::EffectState::InDoubt),
        external_id: effect.external_id.clone(),
        note: effect.note.clone(),
        source: None,
        key_sent: None,
        sent: None,
        find_url: None,
        deniable: None,
        attended: None,
        acts: Vec::new(),
    }
}

/// An audit record in its wire form.
pub(crate) fn view_act(act: AuditView) -> Act {
    Act {
        at: act.at,
        actor: act.actor,
        action: act.action,
        subject: act.subject,
        reason: act.reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_settlement_needs_a_reason_and_null_is_a_result() {
        let bare = serde_json::from_str::<Settle>(r#"{"verdict":"happened"}"#);
        let null = r#"{"verdict":"happened","result":null,"reason":"seen"}"#;
        let null: Settle = serde_json::from_str(null).unwrap();

        assert!(bare.is_err());
        assert_eq!(null.result, Some(serde_json::Value::Null));
    }

    #[test]
    fn what_did_not_happen_has_no_result() {
        let mut settle = Settle {
            verdict: Verdict::DidNotHappen,
            external_id: None,
            result: None,
            attempt: None,
            reason: "not in their list".to_owned(),
        };
        settle.external_id = Some("inv_1".to_owned());

        assert!(read_settlement(settle).is_err());
    }
}
