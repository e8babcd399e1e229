//! Routes for programs and people outside: tasks, named effects and approvals.

use semel_api::Code;
use semel_api::types::{
    AnsweredTask, Approval, ApprovalFilter, BeginOnce, BegunOnce, ClaimTasks, ClaimedTasks,
    CompleteTask, Decide, DecidedApproval, FailOnce, FailTask, FinishOnce, FreeOnce, GetOnce,
    HeartbeatOnce, OnceEffect, OnceFilter, RedoOnce, RenewTask, RenewedOnce, RenewedTask,
    ReportedOnce, SettleOnce, Task, TaskFilter,
};
use semel_model::Right::{Approve, Once, Override, Read, Redo, Settle, Work};

use crate::access::Routes;
use crate::{approvals, once, tasks};

pub(super) fn routes() -> Routes {
    working().merge(scripts()).merge(deciding())
}

fn working() -> Routes {
    Routes::default()
        .get("/tasks", Read, tasks::list)
        .op("list_tasks", "List tasks.")
        .query::<TaskFilter>()
        .page::<Task>()
        .post("/tasks/claim", Work, tasks::claim)
        .op(
            "claim_tasks",
            "Claim tasks of a queue. A repeat under the key gets the same.",
        )
        .keyed()
        .takes::<ClaimTasks>()
        .ok::<ClaimedTasks>()
        .fails(&[Code::TooManyRequests])
        .get("/tasks/{task}", Read, tasks::show)
        .op("get_task", "Show a task.")
        .ok::<Task>()
        .fails(&[Code::TaskNotFound])
        .post("/tasks/{task}/heartbeat", Work, tasks::renew)
        .op("renew_task", "Renew the lease of a task.")
        .takes::<RenewTask>()
        .ok::<RenewedTask>()
        .fails(TASK)
        .post("/tasks/{task}/complete", Work, tasks::complete)
        .op("complete_task", "Report that a task is done.")
        .takes::<CompleteTask>()
        .ok::<AnsweredTask>()
        .fails(TASK)
        .post("/tasks/{task}/fail", Work, tasks::fail)
        .op(
            "fail_task",
            "Report that a task failed, or that its worker cannot tell.",
        )
        .takes::<FailTask>()
        .ok::<AnsweredTask>()
        .fails(TASK)
}

fn scripts() -> Routes {
    Routes::default()
        .get("/once", Read, once::list)
        .op("list_once", "List named effects.")
        .query::<OnceFilter>()
        .page::<OnceEffect>()
        .get("/once/{effect}", Read, once::show)
        .op(
            "get_once_by_key",
            "Show a named effect, by the key that the destination was sent.",
        )
        .ok::<OnceEffect>()
        .fails(&[Code::OnceNotFound])
        .post("/once/begin", Once, once::begin)
        .op("begin_once", "Ask for the right to perform an effect.")
        .takes::<BeginOnce>()
        .ok::<BegunOnce>()
        .fails(ONCE)
        .post("/once/heartbeat", Once, once::heartbeat)
        .op(
            "heartbeat_once",
            "Say that the process still performs an effect.",
        )
        .takes::<HeartbeatOnce>()
        .ok::<RenewedOnce>()
        .fails(ONCE)
        .post("/once/done", Once, once::finish)
        .op("finish_once", "Report that an effect happened.")
        .takes::<FinishOnce>()
        .ok::<ReportedOnce>()
        .fails(ONCE)
        .post("/once/fail", Once, once::fail)
        .op(
            "fail_once",
            "Report that an effect did not happen, or that it is in doubt.",
        )
        .takes::<FailOnce>()
        .ok::<ReportedOnce>()
        .fails(ONCE)
        .post("/once/get", Read, once::get)
        .op("get_once", "Show a named effect. It changes nothing.")
        .takes::<GetOnce>()
        .ok::<OnceEffect>()
        .fails(ONCE)
        .post("/once/settle", Settle, once::settle)
        .op(
            "settle_once",
            "Record what an operator found about a named effect in doubt.",
        )
        .takes::<SettleOnce>()
        .ok::<ReportedOnce>()
        .fails(ONCE)
        .post("/once/redo", Redo, once::redo)
        .op("redo_once", "Let a done named effect be performed again.")
        .takes::<RedoOnce>()
        .ok::<ReportedOnce>()
        .fails(ONCE)
        .post("/once/free", Override, once::free)
        .op(
            "free_once",
            "Take a key from a quarantined run: the effect is in doubt then.",
        )
        .takes::<FreeOnce>()
        .ok::<ReportedOnce>()
        .fails(ONCE)
}

fn deciding() -> Routes {
    Routes::default()
        .get("/approvals", Read, approvals::list)
        .op("list_approvals", "List open approvals, or all.")
        .query::<ApprovalFilter>()
        .page::<Approval>()
        .get("/approvals/{approval}", Read, approvals::show)
        .op("get_approval", "Show an approval.")
        .ok::<Approval>()
        .fails(&[Code::ApprovalNotFound])
        .post("/approvals/{approval}/decide", Approve, approvals::decide)
        .op(
            "decide_approval",
            "Decide an approval. The same decision again gets the same answer.",
        )
        .takes::<Decide>()
        .ok::<DecidedApproval>()
        .fails(super::DECISION)
}

/// Why a worker's report is not accepted.
const TASK: &[Code] = &[
    Code::TaskNotFound,
    Code::TaskNotHeld,
    Code::TaskAnswered,
    Code::TaskWithdrawn,
];

/// Why a script's report is not accepted.
const ONCE: &[Code] = &[
    Code::OnceKeyInvalid,
    Code::OnceNotFound,
    Code::OnceMismatch,
    Code::OnceNotHeld,
    Code::OnceNotInDoubt,
    Code::OnceNotDone,
    Code::OnceHeldByRun,
    Code::SettleTooSoon,
    Code::ReasonInvalid,
];
