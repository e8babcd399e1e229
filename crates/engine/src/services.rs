//! Services: the background tasks of a process, one file each.
//!
//! A service is a struct with its settings. `service.rs` is the loop that all of them run. Most are
//! duties: of the live servers one or a few do each of them, and the others only what they are woken for.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::runtime::{Roster, Runtime};
use alerts::Alerts;
use audit_seal::AuditSeal;
use broadcasts::EventBroadcasts;
use cache_refresh::CacheRefresh;
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
use retention::Retention;
use run_jobs::RunJobs;
use scheduler::Scheduler;
use service::Service;
use tallies::TallyUpkeep;
use upkeep::PartitionUpkeep;

pub(crate) mod alerts;
mod audit_seal;
mod broadcasts;
mod cache_refresh;
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
mod retention;
mod run_jobs;
pub(crate) mod scheduler;
mod service;
mod tallies;
mod upkeep;

/// Starts every service.
pub(crate) fn start(runtime: &Arc<Runtime>) -> Vec<AbortHandle> {
    // Those that take on new work end first; the runs in hand need the others.
    let (first, last) = (&runtime.shutdown.requested, &runtime.shutdown.drained);
    let (runtime, roster) = (|| runtime.clone(), &runtime.roster);
    vec![
        spawn(Poller::new(runtime()), first, roster),
        spawn(OutboxDispatch::new(runtime()), first, roster),
        spawn(EventBroadcasts::new(runtime()), first, roster),
        spawn(OutboundWebhooks::new(runtime()), first, roster),
        spawn(Scheduler::new(runtime()), first, roster),
        spawn(ReconcilePasses::new(runtime()), first, roster),
        spawn(ReplayPlans::new(runtime()), first, roster),
        spawn(Alerts::new(runtime()), first, roster),
        spawn(PauseDrain::new(runtime()), first, roster),
        spawn(RunJobs::new(runtime()), first, roster),
        spawn(LeaseRenewal::new(runtime()), last, roster),
        spawn(Reconciliation::new(runtime()), last, roster),
        spawn(Recovery::new(runtime()), last, roster),
        spawn(GateExits::new(runtime()), last, roster),
        spawn(GateRepair::new(runtime()), last, roster),
        spawn(NameRepair::new(runtime()), last, roster),
        spawn(CacheRefresh::new(runtime()), last, roster),
        spawn(PartitionUpkeep::new(runtime()), last, roster),
        spawn(Retention::new(runtime()), last, roster),
        spawn(ResourceCleanup::new(runtime()), last, roster),
        spawn(OnceLapse::new(runtime()), last, roster),
        spawn(AuditSeal::new(runtime()), last, roster),
        spawn(TallyUpkeep::new(runtime()), last, roster),
    ]
}

/// Starts the services that move runs, each with pauses of this length at the most. What starts runs
/// by itself, deletes or speaks to webhooks is left out.
pub(crate) fn start_for_rehearsal(runtime: &Arc<Runtime>, pause_max: Duration) -> Vec<AbortHandle> {
    let (last, roster) = (&runtime.shutdown.drained, &runtime.roster);
    let runtime = || runtime.clone();
    vec![
        spawn_within(Poller::new(runtime()), last, roster, pause_max),
        spawn_within(OutboxDispatch::new(runtime()), last, roster, pause_max),
        spawn_within(EventBroadcasts::new(runtime()), last, roster, pause_max),
        spawn(LeaseRenewal::new(runtime()), last, roster),
        spawn_within(Recovery::new(runtime()), last, roster, pause_max),
        spawn_within(GateExits::new(runtime()), last, roster, pause_max),
        spawn_within(GateRepair::new(runtime()), last, roster, pause_max),
        spawn_within(NameRepair::new(runtime()), last, roster, pause_max),
    ]
}

fn spawn(
    service: impl Service,
    shutdown: &CancellationToken,
    roster: &watch::Sender<Roster>,
) -> AbortHandle {
    spawn_within(service, shutdown, roster, Duration::MAX)
}

fn spawn_within(
    service: impl Service,
    shutdown: &CancellationToken,
    roster: &watch::Sender<Roster>,
    pause_max: Duration,
) -> AbortHandle {
    tokio::spawn(service.run(shutdown.clone(), roster.subscribe(), pause_max)).abort_handle()
}
