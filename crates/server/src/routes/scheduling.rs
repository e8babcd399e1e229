//! Routes about schedules, reconcile passes, rehearsals, and what holds runs up.

use semel_api::Code;
use semel_api::types::{
    AskPause, AskReconcile, AskRehearsal, AskResume, AskRunJob, AskedReconcile, FireSchedule,
    FiredSchedule, Instant, InstantFilter, PassFilter, Pause, PauseChange, PauseSchedule,
    PausedSchedule, ReconcilePass, ReconcilePassDetail, Rehearsal, RunJob, RunJobFilter,
    RunJobPlan, Schedule, ScheduleDetail, StopRunJob, Tick, TickFilter,
};
use semel_model::Right::{Operate, Read, Write};

use crate::access::Routes;
use crate::{pauses, reconcile, rehearsals, run_jobs, schedules};

pub(super) fn routes() -> Routes {
    passes().merge(recurring()).merge(pausing()).merge(jobs())
}

fn passes() -> Routes {
    Routes::default()
        .get("/reconcile/{flow}", Read, reconcile::list)
        .op(
            "list_passes",
            "List the reconcile passes of a flow, newest first.",
        )
        .query::<PassFilter>()
        .page::<ReconcilePass>()
        .fails(&[Code::ReconcileNotFound])
        .post("/reconcile/{flow}", Operate, reconcile::ask)
        .op("ask_reconcile", "Open a reconcile pass now.")
        .keyed()
        .takes::<AskReconcile>()
        .created::<AskedReconcile>()
        .fails(&[Code::ReconcileNotFound, Code::SinceTooLong])
        .get("/reconcile/{flow}/{nominal}", Read, reconcile::show)
        .op("get_pass", "Show a reconcile pass.")
        .query::<PassFilter>()
        .ok::<ReconcilePassDetail>()
        .fails(&[Code::ReconcileNotFound])
        .get("/rehearsals/{rehearsal}", Read, rehearsals::show)
        .op("get_rehearsal", "Show a rehearsal, and how far it is.")
        .ok::<Rehearsal>()
        .fails(&[Code::RehearsalNotFound])
        .put("/rehearsals/{rehearsal}", Write, rehearsals::ask)
        .op(
            "ask_rehearsal",
            "Rehearse a flow's text. The id is the client's.",
        )
        .takes::<AskRehearsal>()
        .ok::<Rehearsal>()
        .fails(&[
            Code::RehearsalNotFound,
            Code::FlowInvalid,
            Code::TooManyRequests,
        ])
}

fn recurring() -> Routes {
    Routes::default()
        .get("/schedules", Read, schedules::list)
        .op("list_schedules", "List the schedules of live releases.")
        .page::<Schedule>()
        .get("/schedules/{flow}", Read, schedules::show)
        .op(
            "get_schedule",
            "Show the schedule of a flow, with its next instants and its latest ticks.",
        )
        .ok::<ScheduleDetail>()
        .fails(&[Code::ScheduleNotFound])
        .get("/schedules/{flow}/ticks", Read, schedules::list_ticks)
        .op(
            "list_ticks",
            "List what was decided about instants, latest first.",
        )
        .query::<TickFilter>()
        .page::<Tick>()
        .fails(&[Code::ScheduleNotFound])
        .get("/schedules/{flow}/instants", Read, schedules::list_instants)
        .op("list_instants", "List the next instants of a schedule.")
        .query::<InstantFilter>()
        .page::<Instant>()
        .fails(&[Code::ScheduleNotFound])
        .post("/schedules/{flow}/pause", Operate, schedules::pause)
        .op("pause_schedule", "Pause a schedule.")
        .keyed()
        .takes::<PauseSchedule>()
        .ok::<PausedSchedule>()
        .fails(&[Code::ScheduleNotFound, Code::ReasonInvalid])
        .post("/schedules/{flow}/resume", Operate, schedules::resume)
        .op("resume_schedule", "Resume a schedule.")
        .keyed()
        .takes::<PauseSchedule>()
        .ok::<PausedSchedule>()
        .fails(&[Code::ScheduleNotFound, Code::ReasonInvalid])
        .post("/schedules/{flow}/fire", Operate, schedules::fire)
        .op(
            "fire_schedule",
            "Fire an instant by hand; without `at`, now.",
        )
        .keyed()
        .needs_key()
        .takes::<FireSchedule>()
        .created::<FiredSchedule>()
        .ok::<FiredSchedule>()
        .fails(super::INTAKE)
        .fails(&[Code::ScheduleNotFound, Code::InstantNotScheduled])
}

/// The routes that hold runs up and let them continue.
fn pausing() -> Routes {
    let connection = "/connections/{name}/pause";
    let resumed = "/connections/{name}/resume";
    Routes::default()
        .get("/pauses", Read, pauses::list)
        .op(
            "list_pauses",
            "List the flows and connections that are paused.",
        )
        .page::<Pause>()
        .post("/flows/{flow}/pause", Operate, pauses::pause_flow)
        .op(
            "pause_flow",
            "Pause a flow: its runs do not move until it is resumed.",
        )
        .keyed()
        .takes::<AskPause>()
        .ok::<PauseChange>()
        .fails(&[
            Code::FlowNotFound,
            Code::PauseUnsettled,
            Code::ReasonInvalid,
            Code::TooManyRequests,
        ])
        .post("/flows/{flow}/resume", Operate, pauses::resume_flow)
        .op("resume_flow", "Resume a flow.")
        .keyed()
        .takes::<AskResume>()
        .ok::<PauseChange>()
        .fails(&[
            Code::FlowNotFound,
            Code::PauseUnsettled,
            Code::ReasonInvalid,
        ])
        .post(connection, Operate, pauses::pause_connection)
        .op(
            "pause_connection",
            "Pause a connection: no effect over it begins until it is resumed.",
        )
        .keyed()
        .takes::<AskPause>()
        .ok::<PauseChange>()
        .fails(&[
            Code::ConnectionNotFound,
            Code::PauseUnsettled,
            Code::ReasonInvalid,
            Code::TooManyRequests,
        ])
        .post(resumed, Operate, pauses::resume_connection)
        .op("resume_connection", "Resume a connection.")
        .keyed()
        .takes::<AskResume>()
        .ok::<PauseChange>()
        .fails(&[
            Code::ConnectionNotFound,
            Code::PauseUnsettled,
            Code::ReasonInvalid,
        ])
}

fn jobs() -> Routes {
    Routes::default()
        .get("/run-jobs", Read, run_jobs::list)
        .op(
            "list_run_jobs",
            "List the jobs that cancel or resume many runs.",
        )
        .query::<RunJobFilter>()
        .page::<RunJob>()
        .post("/run-jobs", Operate, run_jobs::make)
        .op(
            "make_run_job",
            "Cancel or resume many runs, as the preview showed.",
        )
        .keyed()
        .takes::<AskRunJob>()
        .created::<RunJob>()
        .fails(&[
            Code::FlowNotFound,
            Code::JobInvalid,
            Code::JobChanged,
            Code::ReasonInvalid,
        ])
        .post("/run-jobs/preview", Operate, run_jobs::preview)
        .op(
            "plan_run_job",
            "Show which runs would be cancelled or resumed.",
        )
        .takes::<AskRunJob>()
        .ok::<RunJobPlan>()
        .fails(&[Code::FlowNotFound, Code::JobInvalid])
        .get("/run-jobs/{job}", Read, run_jobs::show)
        .op("get_run_job", "Show a job.")
        .ok::<RunJob>()
        .fails(&[Code::JobNotFound])
        .post("/run-jobs/{job}/stop", Operate, run_jobs::stop)
        .op(
            "stop_run_job",
            "Stop a job: what is left of it is left alone.",
        )
        .keyed()
        .takes::<StopRunJob>()
        .ok::<RunJob>()
        .fails(&[Code::JobNotFound, Code::ReasonInvalid])
}
