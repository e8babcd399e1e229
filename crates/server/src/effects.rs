//! Effects and doubts: list, show, settle.

mod sources;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use semel_api::Code;
use semel_api::types::{Effect, EffectFilter, Page, Settle, Settled, Verdict};
use semel_engine::{SettleError, Settlement};
use semel_model::{EffectId, RunId, Span};
use semel_store::effects::{self, EffectView};
use semel_store::runs;

use crate::access::Caller;
use crate::answer::{self, Answered};
use crate::app::App;
use crate::body::Payload;
use crate::commands::{self, Command, Reply};
use crate::cursor;
use crate::query::{Named, PAGE_MAX, Params, page_size};
use crate::refusal::Refusal;

/// How soon to ask again for a run that a worker holds, in seconds.
const BUSY_SECS: u64 = 1;

/// `GET /v1/effects`.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(filter): Params<EffectFilter>,
) -> Answered {
    let EffectFilter {
        run,
        external_id,
        flow,
        key,
        ..
    } = &filter;
    let page = match (run, external_id, flow, key) {
        (None, None, None, None) => page(&app, &caller, &filter).await?,
        (Some(run), None, None, None) => of_run(&app, &caller, *run, &filter).await?,
        (None, Some(id), None, None) => sources::of_external_id(&app, &caller, id, &filter).await?,
        (None, None, Some(flow), Some(key)) => {
            sources::of_key(&app, &caller, flow, key, &filter).await?
        }
        (_, _, _, _) => {
            let detail = "effects are asked for by `run`, by `external_id`, or by `flow` and `key`";
            return Err(Refusal::new(Code::QueryInvalid, detail));
        }
    };
    answer::ok(&page)
}

async fn of_run(
    app: &App,
    caller: &Caller,
    run: RunId,
    filter: &EffectFilter,
) -> Result<Page<Effect>, Refusal> {
    let run = runs::find(app.cell(), caller.namespace_id, run)
        .await?
        .ok_or_else(|| Refusal::plain(Code::RunNotFound))?;
    let found = effects::list_of_run(app.cell(), caller.namespace_id, run.born, run.id).await?;
    let wanted = |effect: &&EffectView| filter.state.is_none_or(|state| effect.state == state);
    Ok(Page {
        items: found.iter().filter(wanted).map(view).collect(),
        next: None,
    })
}

async fn page(app: &App, caller: &Caller, filter: &EffectFilter) -> Result<Page<Effect>, Refusal> {
    let limit = page_size(filter.limit);
    let before = cursor::read(filter.cursor.as_deref())?;
    let before = before.map(|(at, id)| (at, EffectId::from_uuid(id)));
    let found = effects::list(app.cell(), caller.namespace_id, filter.state, before, limit).await?;
    let last = found.last().filter(|_| found.len() == usize::from(limit));
    Ok(Page {
        items: found.iter().map(view).collect(),
        next: last.map(|last| cursor::write(last.intended_at, last.id.as_uuid())),
    })
}

/// `GET /v1/doubts`.
pub(crate) async fn list_doubts(State(app): State<App>, caller: Caller) -> Answered {
    let found = effects::list_doubts(app.cell(), caller.namespace_id, PAGE_MAX).await?;
    answer::ok(&Page {
        items: found.iter().map(view).collect(),
        next: None,
    })
}

/// `GET /v1/effects/{effect}`.
pub(crate) async fn show(State(app): State<App>, caller: Caller, effect: Named) -> Answered {
    let id = effect.read(Code::EffectNotFound)?;
    match effects::find(app.cell(), caller.namespace_id, id).await? {
        Some(effect) => answer::ok(&view(&effect)),
        None => Err(Refusal::plain(Code::EffectNotFound)),
    }
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
    let verdict = settle.verdict;
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
        engine.settle(namespace_id, id, settlement, &actor).await?;
        tracing::info!(effect.id = %id, verdict = verdict.as_str(), actor, "a doubt was settled");
        let done = Settled {
            effect: id,
            verdict,
        };
        Reply::new(StatusCode::OK, &done)
    })
    .await
}

/// What a person says, where it makes sense together.
fn read_settlement(settle: Settle) -> Result<Settlement, Refusal> {
    let brought = settle.external_id.is_some() || settle.result.is_some();
    match (settle.verdict, settle.reason) {
        (Verdict::Happened, _) => Ok(Settlement::Happened {
            external_id: settle.external_id,
            result: settle.result,
        }),
        (Verdict::DidNotHappen | Verdict::Fail, _) if brought => Err(Refusal::new(
            Code::BodyInvalid,
            "`external_id` and `result` belong to an effect that happened",
        )),
        (Verdict::DidNotHappen, Some(reason)) => Ok(Settlement::DidNotHappen { reason }),
        (Verdict::Fail, Some(reason)) => Ok(Settlement::Fail { reason }),
        (Verdict::DidNotHappen | Verdict::Fail, None) => {
            Err(Refusal::new(Code::BodyInvalid, "`reason` is missing"))
        }
    }
}

impl From<SettleError> for Refusal {
    fn from(error: SettleError) -> Self {
        match error {
            SettleError::Unknown => Self::plain(Code::EffectNotFound),
            SettleError::NotInDoubt { state } => {
                Self::new(Code::NotInDoubt, format!("the effect is {state}"))
            }
            SettleError::TooSoon { retry_in } => {
                Self::plain(Code::SettleTooSoon).retry_in(retry_in)
            }
            SettleError::Busy => Self::plain(Code::RunBusy).retry_in(Span::from_secs(BUSY_SECS)),
            SettleError::Unavailable(cause) => Self::database(&cause),
        }
    }
}

/// An effect as it goes over the wire.
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
        settled_at: effect.settled_at,
        external_id: effect.external_id.clone(),
        note: effect.note.clone(),
        source: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(verdict: Verdict, reason: Option<&str>) -> Settle {
        Settle {
            verdict,
            external_id: None,
            result: None,
            reason: reason.map(str::to_owned),
        }
    }

    #[test]
    fn only_what_happened_needs_no_reason() {
        assert!(read_settlement(said(Verdict::Happened, None)).is_ok());
        assert!(read_settlement(said(Verdict::DidNotHappen, None)).is_err());
        assert!(read_settlement(said(Verdict::Fail, None)).is_err());
        assert!(read_settlement(said(Verdict::Fail, Some("gone"))).is_ok());
    }

    #[test]
    fn what_did_not_happen_has_no_result() {
        let mut settle = said(Verdict::DidNotHappen, Some("not in their list"));
        settle.external_id = Some("inv_1".to_owned());

        assert!(read_settlement(settle).is_err());
    }
}
