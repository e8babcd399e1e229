//! People and programs outside: who answers callbacks, approvals and tasks, and how a case has them
//! misbehave.

use std::time::Duration;

use semel_engine::commands::decide_approval::SubmittedDecision;
use semel_engine::{Approver, Engine, TaskAnswer};
use semel_model::TokenId;
use semel_store::approvals;
use semel_store::rehearsals::{OpenWait, OpenWaitKind};
use semel_store::tasks::{TaskClaim, TaskHold};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::answer;
use crate::case::Case;
use crate::fault::FaultClass;
use crate::vary;

/// Answers something that a run of the case waits for. False where it is left alone.
pub(crate) async fn answer(engine: Engine, case: Case, open: OpenWait) -> bool {
    match open.kind {
        OpenWaitKind::Callback => call_back(&engine, &case, &open).await,
        OpenWaitKind::Approval => decide(&engine, &case, &open).await,
        OpenWaitKind::Task => work(&engine, &case, &open).await,
    }
}

async fn call_back(engine: &Engine, case: &Case, open: &OpenWait) -> bool {
    let struck = case.fault.is_at(&open.step, 1);
    let Some(body) = case.callback_body(&open.step) else {
        return false;
    };
    if struck && case.fault.class == FaultClass::CallbackLate {
        return false;
    }
    let times = match struck && case.fault.class == FaultClass::CallbackTwice {
        true => 2,
        false => 1,
    };
    let mut answered = false;
    for _ in 0..times {
        let called = engine.call_back_staged(open.run, &open.step, &body).await;
        answered |= called.is_ok();
    }
    case.stage.log().used |= struck;
    answered
}

/// Answers the wait of a run that stands still, and contradicts the answer. False where there is nothing
/// to answer, or both came before.
pub(crate) async fn contradict(engine: Engine, case: Case) -> bool {
    let (FaultClass::CallbackContradicted, Some(spot)) = (case.fault.class, &case.fault.at) else {
        return false;
    };
    let (Some(run), Some(said)) = (case.arrived.run(), case.example.answers.get(&spot.step)) else {
        return false;
    };
    {
        let mut log = case.stage.log();
        if !log.used || log.called_back {
            return false;
        }
        log.called_back = true;
    }
    let said = answer::payload(said);
    for body in [said.clone(), vary::contradicted(&said)] {
        let body = body.to_string().into_bytes();
        // The second is a repeat, which the first answers.
        let _ = engine.call_back_staged(run, &spot.step, &body).await;
    }
    true
}

async fn decide(engine: &Engine, case: &Case, open: &OpenWait) -> bool {
    let struck = case.fault.is_at(&open.step, 1);
    let said = case.example.answers.get(&open.step);
    let approved = said.and_then(|said| said.get("approved"));
    let approved = approved.and_then(Value::as_bool).unwrap_or(true);
    let mut verdicts = vec![approved];
    let struck_by = |class| struck && case.fault.class == class;
    verdicts.extend(struck_by(FaultClass::ApprovalTwice).then_some(approved));
    verdicts.extend(struck_by(FaultClass::ApprovalContradicted).then_some(!approved));
    let cell = engine.cell();
    let Ok(Some(view)) = approvals::find_by_link(cell.of(open.wait()), open.wait()).await else {
        return false;
    };
    let by = Approver::Token {
        name: view.people.first().cloned().unwrap_or_default(),
        groups: view.people.clone(),
    };
    let mut decided = false;
    for approved in verdicts {
        let verdict = SubmittedDecision {
            digest: view.digest.clone(),
            approved,
            comment: None,
        };
        decided |= engine.decide(&view, &by, verdict).await.is_ok();
    }
    case.stage.log().used |= struck;
    decided
}

async fn work(engine: &Engine, case: &Case, open: &OpenWait) -> bool {
    let claim = TaskClaim {
        namespace_id: open.namespace_id,
        caller: TokenId::from_uuid(Uuid::nil()),
        queue: open.queue.clone(),
        most: 1,
        worker: Some("rehearsal".to_owned()),
        name: None,
        lease: None,
    };
    let Ok(claimed) = engine.claim_tasks(&claim, Duration::ZERO).await else {
        return false;
    };
    let mut answered = false;
    for task in claimed {
        let said = case.example.answers.get(&task.step);
        let said = said.map_or_else(|| json!({}), answer::payload);
        let done = TaskAnswer::Done(said);
        let hold = TaskHold {
            namespace_id: claim.namespace_id,
            task: task.task,
            token: task.token,
            caller: claim.caller,
        };
        answered |= engine.answer_task(hold, done).await.is_ok();
    }
    answered
}

/// What comes after the end of a case. False where nothing does.
pub(crate) async fn epilogue(engine: Engine, case: Case) -> bool {
    let (FaultClass::CallbackLate, Some(spot)) = (case.fault.class, &case.fault.at) else {
        return false;
    };
    if let (Some(run), Some(body)) = (case.arrived.run(), case.callback_body(&spot.step)) {
        // The address leads nowhere by now, which is what the case is about.
        let _ = engine.call_back_staged(run, &spot.step, &body).await;
        case.stage.log().used = true;
    }
    true
}
