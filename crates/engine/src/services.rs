//! Services: the background tasks of a process, one file each.
//!
//! A service is a struct with its settings. `service.rs` is the loop that all of them run, and `supervision.rs` begins
//! it anew after a panic. Most are duties: of the live servers one or a few do each of them, and the others only what
//! they are woken for, or what is late.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::runtime::Runtime;
use alerts::Alerts;
use audit_seal::AuditSeal;
use broadcasts::EventBroadcasts;
use cache_refresh::CacheRefresh;
use duty_marks::DutyMarks;
use gate_exits::GateExits;
use gate_repair::GateRepair;
use lease_renewal::LeaseRenewal;
use name_repair::NameRepair;
use once_lapse::OnceLapse;
use outbound_webhooks::OutboundWebhooks;
use outbox_dispatch::OutboxDispatch;
use pause_drain::PauseDrain;
use poller::Poller;
use reconcile_passes::ReconcilePasses;
use reconciliation::Reconciliation;
use recovery::Recovery;
use replay_plans::ReplayPlans;
use resource_cleanup::ResourceCleanup;
use resource_scan::ResourceScan;
use retention::{AuditRetention, FileRetention, KeyRetention, Retention, RunRetention};
use run_jobs::RunJobs;
use scheduler::Scheduler;
use service::{Service, Surroundings};
use supervision::supervise;
use tallies::TallyUpkeep;
use upkeep::PartitionUpkeep;
use wake_repair::WakeRepair;

pub(crate) mod alerts;
mod audit_seal;
mod broadcasts;
mod cache_refresh;
mod duty_marks;
mod gate_exits;
mod gate_repair;
mod lease_renewal;
mod name_repair;
mod once_lapse;
mod outbound_webhooks;
mod outbox_dispatch;
mod pause_drain;
mod poller;
pub(crate) mod reconcile_passes;
pub(crate) mod reconciliation;
mod recovery;
mod replay_plans;
mod resource_cleanup;
mod resource_scan;
mod retention;
mod run_jobs;
pub(crate) mod scheduler;
mod service;
mod supervision;
mod tallies;
mod upkeep;
mod wake_repair;

/// The duties of this build, by name: one server or a few do each of them for all.
pub const DUTIES: &[&str] = &[
    OutboxDispatch::NAME,
    EventBroadcasts::NAME,
    OutboundWebhooks::NAME,
    Scheduler::NAME,
    ReconcilePasses::NAME,
    ReplayPlans::NAME,
    Alerts::NAME,
    PauseDrain::NAME,
    RunJobs::NAME,
    Recovery::NAME,
    GateRepair::NAME,
    NameRepair::NAME,
    WakeRepair::NAME,
    PartitionUpkeep::NAME,
    Retention::NAME,
    KeyRetention::NAME,
    RunRetention::NAME,
    FileRetention::NAME,
    ResourceCleanup::NAME,
    ResourceScan::NAME,
    OnceLapse::NAME,
    AuditSeal::NAME,
];

/// Starts every service.
pub(crate) fn start(runtime: &Arc<Runtime>) -> Vec<AbortHandle> {
    // Those that take on new work end first; the runs in hand need the others.
    let (first, last) = (&runtime.shutdown.requested, &runtime.shutdown.drained);
    vec![
        spawn(runtime, Poller::new, first),
        spawn(runtime, OutboxDispatch::new, first),
        spawn(runtime, EventBroadcasts::new, first),
        spawn(runtime, OutboundWebhooks::new, first),
        spawn(runtime, Scheduler::new, first),
        spawn(runtime, ReconcilePasses::new, first),
        spawn(runtime, ReplayPlans::new, first),
        spawn(runtime, Alerts::new, first),
        spawn(runtime, PauseDrain::new, first),
        spawn(runtime, RunJobs::new, first),
        spawn(runtime, LeaseRenewal::new, last),
        spawn(runtime, Reconciliation::new, last),
        spawn(runtime, Recovery::new, last),
        spawn(runtime, GateExits::new, last),
        spawn(runtime, GateRepair::new, last),
        spawn(runtime, NameRepair::new, last),
        spawn(runtime, WakeRepair::new, last),
        spawn(runtime, CacheRefresh::new, last),
        spawn(runtime, PartitionUpkeep::new, last),
        spawn(runtime, Retention::new, last),
        spawn(runtime, KeyRetention::new, last),
        spawn(runtime, RunRetention::new, last),
        spawn(runtime, FileRetention::new, last),
        spawn(runtime, AuditRetention::new, last),
        spawn(runtime, ResourceCleanup::new, last),
        spawn(runtime, ResourceScan::new, last),
        spawn(runtime, OnceLapse::new, last),
        spawn(runtime, AuditSeal::new, last),
        spawn(runtime, TallyUpkeep::new, last),
        spawn(runtime, DutyMarks::new, last),
    ]
}

/// Starts the services that move runs, each with pauses of this length at the most. What starts runs
/// by itself, deletes or speaks to webhooks is left out, and so is the repair of wakes: a rehearsal
/// is to show a wake that is lost.
pub(crate) fn start_for_rehearsal(runtime: &Arc<Runtime>, pause_max: Duration) -> Vec<AbortHandle> {
    let last = &runtime.shutdown.drained;
    vec![
        spawn_within(runtime, Poller::new, last, pause_max),
        spawn_within(runtime, OutboxDispatch::new, last, pause_max),
        spawn_within(runtime, EventBroadcasts::new, last, pause_max),
        spawn(runtime, LeaseRenewal::new, last),
        spawn_within(runtime, Recovery::new, last, pause_max),
        spawn_within(runtime, GateExits::new, last, pause_max),
        spawn_within(runtime, GateRepair::new, last, pause_max),
        spawn_within(runtime, NameRepair::new, last, pause_max),
    ]
}

/// The services of which tests make single passes, on an engine that has started none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinglePass {
    /// Hands over the events of the outbox.
    OutboxDispatch,
    /// Makes the runs due whose pause is over.
    PauseDrain,
    /// Takes runs back from sessions that are lost.
    Recovery,
}

/// Makes one pass of a service, and waits for what it began. Says whether another pass would follow at once.
pub(crate) async fn pass_once(
    runtime: &Arc<Runtime>,
    of: SinglePass,
) -> Result<bool, service::PassError> {
    match of {
        SinglePass::OutboxDispatch => pass_of(OutboxDispatch::new(runtime.clone())).await,
        SinglePass::PauseDrain => pass_of(PauseDrain::new(runtime.clone())).await,
        SinglePass::Recovery => pass_of(Recovery::new(runtime.clone())).await,
    }
}

async fn pass_of(mut service: impl Service) -> Result<bool, service::PassError> {
    let pause = service.pass().await?;
    service.finish().await;
    Ok(pause.is_zero())
}

fn spawn<S: Service>(
    runtime: &Arc<Runtime>,
    make: fn(Arc<Runtime>) -> S,
    shutdown: &CancellationToken,
) -> AbortHandle {
    spawn_within(runtime, make, shutdown, Duration::MAX)
}

/// Starts a service, which is made anew from the runtime after a panic.
fn spawn_within<S: Service>(
    runtime: &Arc<Runtime>,
    make: fn(Arc<Runtime>) -> S,
    shutdown: &CancellationToken,
    pause_max: Duration,
) -> AbortHandle {
    let service = make(runtime.clone());
    let (duties, holders) = (&runtime.duties, S::HELD_BY.holders());
    let record = duties.register(S::NAME, holders, service.late_after());
    let surroundings = Surroundings {
        shutdown: shutdown.clone(),
        roster: runtime.roster.subscribe(),
        pause_max,
    };
    let runtime = runtime.clone();
    let make = move || make(runtime.clone());
    tokio::spawn(supervise(service, make, record, surroundings)).abort_handle()
}
