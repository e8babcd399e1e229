//! Routes about flows, their releases and the runs that they start.

use semel_api::Code;
use semel_api::schema::{IgnoredDelivery, Span, StaleDelivery};
use semel_api::types::{
    DiffFilter, Draft, Flow, FlowDetail, FlowDiff, GraphFilter, Promote, Promoted, Published,
    PushFlow, Rehearsal, RehearsalFilter, Release, ReleaseFilter, StartRun, Started,
};
use semel_model::Right::{Promote as MayPromote, Read, Start, Write};

use crate::access::Routes;
use crate::operation::Content;
use crate::{flows, rehearsals, starts};

pub(super) fn routes() -> Routes {
    Routes::default()
        .get("/flows", Read, flows::list)
        .op("list_flows", "List the flows of the namespace.")
        .page::<Flow>()
        .get("/flows/{flow}/releases", Read, flows::releases::list)
        .op(
            "list_releases",
            "List the releases of a flow, newest first.",
        )
        .query::<ReleaseFilter>()
        .page::<Release>()
        .fails(&[Code::FlowNotFound])
        .get("/flows/{flow}", Read, flows::show)
        .op("get_flow", "Show a flow with its draft and its releases.")
        .ok::<FlowDetail>()
        .fails(&[Code::FlowNotFound])
        .get("/flows/{flow}/graph.svg", Read, flows::compare::graph)
        .op("draw_flow", "Draw the steps of a release as a picture.")
        .query::<GraphFilter>()
        .answers_content(200, Content::Other("image/svg+xml"))
        .fails(&[
            Code::FlowNotFound,
            Code::ReleaseNotFound,
            Code::TooManyRequests,
        ])
        .get("/flows/{flow}/diff", Read, flows::compare::diff)
        .op(
            "compare_releases",
            "Show what one release means that another does not.",
        )
        .query::<DiffFilter>()
        .ok::<FlowDiff>()
        .fails(&[
            Code::FlowNotFound,
            Code::ReleaseNotFound,
            Code::TooManyRequests,
        ])
        .get("/flows/{flow}/rehearsals", Read, rehearsals::list)
        .op(
            "list_rehearsals",
            "List the rehearsals of a flow, newest first, without their reports.",
        )
        .query::<RehearsalFilter>()
        .page::<Rehearsal>()
        .fails(&[Code::FlowNotFound, Code::ReleaseNotFound])
        .put("/flows/{flow}/draft", Write, flows::push)
        .op("push_flow", "Replace a flow's draft.")
        .takes::<PushFlow>()
        .takes_content(Content::Other("application/yaml"))
        .ok::<Draft>()
        .fails(&[Code::FlowNotFound, Code::FlowInvalid, Code::FlowNameDiffers])
        .post("/flows/{flow}/publish", Write, flows::publish)
        .op("publish_flow", "Freeze a flow's draft as a release.")
        .keyed()
        .takes_content(Content::AnyJson)
        .created::<Published>()
        .ok::<Published>()
        .fails(&[Code::FlowNotFound, Code::FlowInvalid, Code::DraftMissing])
        .post("/flows/{flow}/promote", MayPromote, flows::promote::promote)
        .op(
            "promote_flow",
            "Make a release the one that new runs start on.",
        )
        .keyed()
        .takes::<Promote>()
        .ok::<Promoted>()
        .fails(&[
            Code::FlowNotFound,
            Code::ReleaseNotFound,
            Code::FlowInvalid,
            Code::FlowNotRehearsed,
            Code::HookTaken,
            Code::ReasonInvalid,
        ])
        .post("/flows/{flow}/runs", Start, starts::start)
        .op(
            "start_run",
            "Start a run, or find the one that its key has.",
        )
        .needs_key()
        .param::<Span>("wait", "How long to wait for the run's end, up to 60 s.")
        .takes::<StartRun>()
        .ok::<Started>()
        .ok::<IgnoredDelivery>()
        .ok::<StaleDelivery>()
        .accepted::<Started>()
        .fails(super::INTAKE)
        .fails(&[Code::CommandMismatch, Code::BacklogFull])
}
