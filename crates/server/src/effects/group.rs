//! Doubts of one step that are settled together.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use semel_api::Code;
use semel_api::types::{GroupedDoubt, GroupedDoubts, SettleGroup, Verdict};
use semel_engine::{DoubtGroup, GroupDoubt, GroupPlan, Settlement};

use super::must_undo;
use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;
use crate::body::Payload;
use crate::commands::{self, Command, Reply};
use crate::error::ApiError;

/// `POST /v1/doubts/settle/preview`. It changes nothing.
pub(crate) async fn preview_group(
    State(app): State<App>,
    caller: Caller,
    payload: Payload,
) -> Answered {
    let (asked, _) = payload.read::<SettleGroup>()?;
    let (group, settlement) = read_group(&asked);
    let id = caller.namespace_id;
    let plan = app.engine.plan_settlement(id, &group, &settlement).await?;
    answer::ok(&view(plan, asked.verdict, 0))
}

/// `POST /v1/doubts/settle`.
pub(crate) async fn settle_group(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let (asked, body) = payload.read::<SettleGroup>()?;
    let Some(looked_at) = asked.digest.clone() else {
        let detail = "`digest` is missing: preview the group, and settle it with the digest";
        return Err(ApiError::new(Code::BodyInvalid, detail));
    };
    must_undo(&caller, asked.verdict)?;
    let (group, settlement) = read_group(&asked);
    let subject = format!("{}/{}", group.flow, group.step);
    let command = Command {
        verb: "settle-group",
        subject: &subject,
        body: &body,
        headers: &headers,
    };
    let (engine, asking) = (app.engine.clone(), caller.clone());
    commands::once(app, &caller, command, async move {
        let actor = asking.actor();
        let settling = engine.settle_group(asking.acting(&actor), &group, &settlement, &looked_at);
        let plan = settling.await?;
        let settled = plan.doubts.iter().filter(|it| it.refused.is_none()).count();
        let (flow, step) = (group.flow.as_str(), group.step.as_str());
        tracing::info!(
            flow,
            step,
            settled,
            verdict = asked.verdict.as_str(),
            actor,
            "doubts settled"
        );
        Reply::new(StatusCode::OK, &view(plan, asked.verdict, settled))
    })
    .await
}

fn read_group(asked: &SettleGroup) -> (DoubtGroup, Settlement) {
    let group = DoubtGroup {
        flow: asked.flow.clone(),
        step: asked.step.clone(),
        connection: asked.connection.clone(),
        seen: asked.seen.clone(),
    };
    let (reason, external_id, result) = (asked.reason.clone(), None, None);
    let settlement = match asked.verdict {
        Verdict::Happened => Settlement::Happened {
            external_id,
            result,
            reason,
        },
        Verdict::Undo => Settlement::Undo {
            external_id,
            result,
            reason,
        },
        Verdict::DidNotHappen => Settlement::DidNotHappen { reason },
        Verdict::Fail => Settlement::Fail { reason },
    };
    (group, settlement)
}

fn view(plan: GroupPlan, verdict: Verdict, settled: usize) -> GroupedDoubts {
    GroupedDoubts {
        digest: plan.digest,
        verdict,
        doubts: plan.doubts.into_iter().map(view_doubt).collect(),
        settled,
        more: plan.has_more,
    }
}

fn view_doubt(doubt: GroupDoubt) -> GroupedDoubt {
    let (code, note) = doubt.refused.unzip();
    GroupedDoubt {
        effect: doubt.effect,
        run: doubt.run,
        attempt: doubt.attempt,
        code: code.map(str::to_owned),
        note,
    }
}
