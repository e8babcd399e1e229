//! Routes about runs.

use semel_api::Code;
use semel_api::schema::{ReplayPreview, Span};
use semel_api::types::{
    Cancel, Cancelled, ChildRun, ChildRunFilter, EraseRun, ErasedRuns, Overview, PreviewReplay,
    Replay, Replayed, Resume, Resumed, Run, RunDetail, RunFilter, SeriesFilter, Tallies,
    TallyFilter, TallySeries,
};
use semel_model::Right::{Admin, Operate, Read, Replay as MayReplay};

use crate::access::Routes;
use crate::{child_runs, replays, runs, tallies};

pub(super) fn routes() -> Routes {
    Routes::default()
        .get("/runs", Read, runs::list)
        .op("list_runs", "List runs, newest first.")
        .query::<RunFilter>()
        .page::<Run>()
        .fails(&[Code::KeyInvalid, Code::RunNotFound, Code::RunArchived])
        .get("/runs/{run}", Read, runs::show)
        .op("get_run", "Show a run with all that happened to it.")
        .ok::<RunDetail>()
        .fails(&[
            Code::RunNotFound,
            Code::ArchiveUnavailable,
            Code::Overloaded,
        ])
        .get("/runs/{run}/wait", Read, runs::watch)
        .op("await_run", "Wait for a run's end.")
        .param::<Span>("for", "How long to wait, up to 60 s.")
        .ok::<Run>()
        .fails(&[Code::RunNotFound, Code::ArchiveUnavailable])
        .post("/runs/{run}/cancel", Operate, runs::cancel)
        .op("cancel_run", "Ask for a run's end.")
        .keyed()
        .takes::<Cancel>()
        .accepted::<Cancelled>()
        .fails(&[
            Code::RunNotFound,
            Code::RunArchived,
            Code::RunEnded,
            Code::ReasonInvalid,
        ])
        .post("/runs/{run}/erase", Admin, runs::erase)
        .op(
            "erase_run",
            "Erase what was said in all runs of a run's key; what they did stays.",
        )
        .keyed()
        .takes::<EraseRun>()
        .ok::<ErasedRuns>()
        .fails(&[
            Code::RunNotFound,
            Code::RunNotEnded,
            Code::RunTooLarge,
            Code::JournalInconsistent,
            Code::ReasonInvalid,
            Code::ArchiveUnavailable,
        ])
        .post("/runs/{run}/resume", Operate, runs::resume)
        .op(
            "resume_run",
            "Resume a run that failed, needs review or is quarantined.",
        )
        .keyed()
        .takes::<Resume>()
        .accepted::<Resumed>()
        .fails(&[
            Code::RunNotFound,
            Code::RunArchived,
            Code::NotResumable,
            Code::ReasonInvalid,
            Code::RunBusy,
            Code::JournalInconsistent,
        ])
        .post("/runs/{run}/replay", MayReplay, replays::replay)
        .op("replay_run", "Replay a run as its preview showed.")
        .keyed()
        .takes::<Replay>()
        .accepted::<Replayed>()
        .fails(REPLAY)
        .post("/runs/{run}/replay/preview", MayReplay, replays::preview)
        .op(
            "preview_replay",
            "Show what a replay of a run would do. It changes nothing.",
        )
        .takes::<PreviewReplay>()
        .ok::<ReplayPreview>()
        .fails(REPLAY)
        .get("/runs/{run}/child-runs", Read, child_runs::list)
        .op("list_child_runs", "List the items and branches of a run.")
        .query::<ChildRunFilter>()
        .page::<ChildRun>()
        .fails(&[Code::RunNotFound, Code::ArchiveUnavailable])
        .get("/overview", Read, tallies::waiting)
        .op(
            "get_overview",
            "Count what waits for people, and say whether runs are served.",
        )
        .ok::<Overview>()
        .get("/tallies", Read, tallies::sum)
        .op(
            "sum_tallies",
            "Sum how much of what happened, by flow. The figures are approximate.",
        )
        .query::<TallyFilter>()
        .ok::<Tallies>()
        .get("/tallies/series", Read, tallies::series)
        .op(
            "sum_series",
            "Sum how much of what happened, one interval after the other. The figures are approximate.",
        )
        .query::<SeriesFilter>()
        .ok::<TallySeries>()
}

/// Why a run is not replayed.
const REPLAY: &[Code] = &[
    Code::RunNotFound,
    Code::RunArchived,
    Code::NotReplayable,
    Code::ReleaseNotFound,
    Code::InputInvalid,
    Code::EffectChanged,
    Code::EffectDiffers,
    Code::NotInDoubt,
    Code::ReplayChanged,
    Code::ReasonInvalid,
    Code::RunBusy,
    Code::JournalInconsistent,
];
