//! Approvals: the page that a link leads to, and the API's routes to decide.
//!
//! `GET` shows and changes nothing: mail scanners and link previews fetch every address they see.
//! The decision is a `POST` to the same address, with the digest of what was shown. An address
//! that is unknown and one that has expired look the same.

mod page;

use axum::Extension;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, HeaderMap};
use axum::response::{IntoResponse, Response};
use semel_api::Code;
use semel_api::types::{Approval, ApprovalFilter, Decide, DecidedApproval};
use semel_engine::commands::decide_approval::{
    Approver, ClaimedName, DecideError, Decided, SubmittedDecision,
};
use semel_model::WaitId;
use semel_model::approval::{ApprovalDecision, Digest};
use semel_store::approvals::{self, ApprovalView};
use semel_store::audit::origin::ActOrigin;
use url::form_urlencoded;

use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;
use crate::body::Payload;
use crate::cursor;
use crate::error::ApiError;
use crate::list_memory::ListMemory;
use crate::payloads;
use crate::query::{Named, Params, page_size};
use crate::rate_limit::Peer;

/// `GET /approvals/{token}`: what is asked, and what was decided.
pub(crate) async fn page(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    token: Named,
) -> Response {
    match find(&app, peer, &token).await {
        Ok(view) => page::show(&view),
        Err(refusal) => page::refuse(refusal),
    }
}

/// `POST /approvals/{token}`: the decision, from the page's form or as JSON.
pub(crate) async fn submit(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    token: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Response {
    let json = headers
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let read = match json {
        true => payload.read::<Decide>().map(|(decide, _)| decide),
        false => read_form(&payload),
    };
    let decided = async {
        let view = find(&app, peer, &token).await.map_err(No::Refused)?;
        let decide = read.map_err(No::Refused)?;
        let by = claimed(decide.name.as_deref()).map_err(No::Refused)?;
        let decided = carry_out(&app, &view, by, to_verdict(decide)).await?;
        Ok((view, decided))
    }
    .await;
    match (json, decided) {
        (true, decided) => {
            let answered = decided
                .map_err(No::into_refusal)
                .and_then(|(_, decided)| answer_decided(&decided));
            page::discreet(answered.into_response())
        }
        (false, Ok((view, decided))) => page::decided(&view, &decided.decision),
        (false, Err(No::Contrary(view, decision))) => page::contrary(&view, &decision),
        (false, Err(no)) => page::refuse(no.into_refusal()),
    }
}

/// Why a decision by link is not accepted.
enum No {
    Refused(ApiError),
    Contrary(Box<ApprovalView>, ApprovalDecision),
}

impl No {
    fn into_refusal(self) -> ApiError {
        match self {
            Self::Refused(refusal) => refusal,
            Self::Contrary(_, decision) => DecideError::Contrary { decision }.into(),
        }
    }
}

/// What a link leads to. A client that guesses links is rate-limited after a while.
async fn find(app: &App, peer: Peer, token: &Named) -> Result<ApprovalView, ApiError> {
    match app.engine.find_approval(token.as_str()).await? {
        Some(view) => Ok(view),
        None => Err(app.edge.refuse_unknown(peer, Code::ApprovalNotFound)),
    }
}

/// The decision is a task of its own: a client that hangs up does not stop it half way.
async fn carry_out(
    app: &App,
    view: &ApprovalView,
    by: Approver,
    verdict: SubmittedDecision,
) -> Result<Decided, No> {
    let (engine, asked) = (app.engine.clone(), view.clone());
    let deciding = async move { engine.decide(&asked, &by, verdict).await };
    let written = tokio::spawn(ActOrigin::carry(deciding));
    match written.await {
        Ok(Ok(decided)) => {
            let approved = decided.decision.approved;
            if !decided.replayed {
                tracing::info!(run.id = %decided.run, approval.id = %decided.wait, approved,
                    by = decided.decision.by, "an approval was decided");
            }
            Ok(decided)
        }
        Ok(Err(DecideError::Contrary { decision })) => {
            Err(No::Contrary(Box::new(view.clone()), decision))
        }
        Ok(Err(error)) => Err(No::Refused(error.into())),
        Err(_) => Err(No::Refused(ApiError::internal("a decision panicked"))),
    }
}

/// A person who has the link, under the name that they give.
fn claimed(name: Option<&str>) -> Result<Approver, ApiError> {
    let invalid = |detail: String| ApiError::new(Code::BodyInvalid, detail);
    let name = name.ok_or_else(|| invalid("`name` is needed: who decides".to_owned()))?;
    match name.parse::<ClaimedName>() {
        Ok(name) => Ok(Approver::Link { name }),
        Err(error) => Err(invalid(format!("`name`: {error}"))),
    }
}

/// What the page's form sends.
fn read_form(payload: &Payload) -> Result<Decide, ApiError> {
    let (mut approved, mut digest, mut comment, mut who) = (None, None, None, None);
    for (name, value) in form_urlencoded::parse(&payload.0) {
        match (&*name, &*value) {
            ("decision", "approve") => approved = Some(true),
            ("decision", "reject") => approved = Some(false),
            ("digest", value) => digest = Some(Digest::from_text(value)),
            ("comment", value) => comment = Some(value.to_owned()),
            ("name", value) => who = Some(value.to_owned()),
            _ => {
                let detail = format!("the form has no `{name}` of this value");
                return Err(ApiError::new(Code::BodyInvalid, detail));
            }
        }
    }
    match (approved, digest) {
        (Some(approved), Some(digest)) => Ok(Decide {
            approved,
            digest,
            comment,
            name: who,
        }),
        _ => Err(ApiError::new(
            Code::BodyInvalid,
            "`decision` and `digest` are needed",
        )),
    }
}

fn to_verdict(decide: Decide) -> SubmittedDecision {
    SubmittedDecision {
        digest: Digest::from_text(decide.digest.as_str()),
        approved: decide.approved,
        comment: decide.comment,
    }
}

fn answer_decided(decided: &Decided) -> Answered {
    let mut response = answer::ok(&DecidedApproval {
        approval: decided.wait,
        run: decided.run,
        decision: decided.decision.clone(),
    })?;
    if decided.replayed {
        answer::mark_replayed(&mut response);
    }
    Ok(response)
}

/// `GET /v1/approvals`.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(filter): Params<ApprovalFilter>,
) -> Answered {
    let limit = page_size(filter.limit);
    let before = cursor::read(filter.cursor.as_deref())?;
    let (cell, id, all) = (app.cell(), caller.namespace_id, filter.all);
    let memory = ListMemory::take(&app, caller.namespace_id).await?;
    let found = match filter.run {
        Some(run) => approvals::list_of_run(cell.of(run), id, run, all, before, limit).await?,
        None => approvals::list(cell.every(), id, all, before, limit).await?,
    };
    let next = found.next.map(cursor::write_position);
    payloads::page(&caller, memory, &found.items, view, next)
}

/// `GET /v1/approvals/{approval}`.
pub(crate) async fn show(State(app): State<App>, caller: Caller, approval: Named) -> Answered {
    let found = find_own(&app, &caller, &approval).await?;
    payloads::ok(&caller, view(&found))
}

/// `POST /v1/approvals/{approval}/decide`. The same decision again gets the same answer.
pub(crate) async fn decide(
    State(app): State<App>,
    caller: Caller,
    approval: Named,
    payload: Payload,
) -> Answered {
    let (decide, _) = payload.read::<Decide>()?;
    if decide.name.is_some() {
        let detail = "`name` goes with a link: here the token says who decides";
        return Err(ApiError::new(Code::BodyInvalid, detail));
    }
    let found = find_own(&app, &caller, &approval).await?;
    let decided = carry_out(&app, &found, caller.approver(), to_verdict(decide)).await;
    answer_decided(&decided.map_err(No::into_refusal)?)
}

async fn find_own(app: &App, caller: &Caller, approval: &Named) -> Result<ApprovalView, ApiError> {
    let id: WaitId = approval.read(Code::ApprovalNotFound)?;
    let found = approvals::find(app.cell().of(id), caller.namespace_id, id).await?;
    found.ok_or_else(|| ApiError::plain(Code::ApprovalNotFound))
}

/// An approval in its wire form.
pub(crate) fn view(approval: &ApprovalView) -> Approval {
    let asked = approval.clone();
    Approval {
        approval: asked.wait,
        run: asked.run,
        flow: asked.flow,
        key: asked.key.map(|key| key.text()),
        step: asked.step,
        state: asked.state,
        from: asked.people,
        escalate: asked.escalate,
        escalate_at: asked.escalate_at,
        shown: serde_json::from_str(&asked.shown).unwrap_or_default(),
        digest: Some(asked.digest),
        login: asked.login,
        not_by: asked.not_by,
        opened_at: asked.opened_at,
        until: asked.until,
        ended_at: asked.ended_at,
        decision: asked.decision,
    }
}

/// A decision in words.
fn in_words(decision: &ApprovalDecision) -> String {
    let verb = if decision.approved {
        "approved"
    } else {
        "rejected"
    };
    format!("{verb} by {} at {}", decision.by, decision.at)
}

impl From<DecideError> for ApiError {
    fn from(error: DecideError) -> Self {
        match error {
            DecideError::Unknown => Self::plain(Code::ApprovalNotFound),
            DecideError::Differs => Self::plain(Code::ApprovalDiffers),
            DecideError::Contrary { decision } => Self::new(
                Code::ApprovalDecided,
                format!("it was {}", in_words(&decision)),
            ),
            DecideError::Denied(why) => Self::new(Code::ApprovalDenied, why),
            DecideError::NeedsLogin => Self::plain(Code::ApprovalNeedsLogin),
            DecideError::Unavailable(cause) => Self::database(&cause),
        }
    }
}
