//! What commands and services share: the database and its writers, the clock, the configuration
//! that is cached, the secrets, the executors' reach, and what this process remembers.
//!
//! Data only: nothing here takes a run or moves one. Everything above is written as functions over
//! it, and nothing below knows it.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jiff::Timestamp;
use semel_model::{RunId, SessionId, Span};
use semel_steps::{Egress, ROOM_WAIT_MAX, Reach};
use semel_store::approvals::{self, DecisionBatch};
use semel_store::claims::{self, Accept};
use semel_store::clock::Clock;
use semel_store::duplicates::Tally;
use semel_store::journal::{self, TransitionBatch};
use semel_store::object_versions::{self, VersionBatch};
use semel_store::queue::{self, Look, ReturnCause, Taker};
use semel_store::tasks::{self, TaskAnswerBatch};
use semel_store::waits::{self, CallbackBatch};
use semel_store::writer::Writer;
use semel_store::{Cell, ReadError};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::catalogue::{Catalogue, Release};
use crate::landing::Landing;
use crate::llm::Asking;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::pauses::PauseCache;
use crate::rehearsal::Rehearsal;
use crate::state_lock::StateLock;
use crate::vault::{Destinations, Vault};

mod auth_failures;
mod backlogs;
mod child_notify;
mod completion;
mod duties;
mod holdings;
mod limiter;
mod lookups;
mod parent_states;
mod recent;
mod refusal_log;
mod room;
mod roster;
mod session;
mod stalled_runs;
mod tallies;
mod waiting_claims;

pub(crate) use auth_failures::AuthFailures;
pub(crate) use backlogs::{Backlog, Backlogs};
pub(crate) use child_notify::ChildNotify;
pub(crate) use completion::{Carried, Completions};
pub(crate) use duties::{Duties, PassBy, ServiceRecord};
pub use duties::{PassFailure, ServiceView, Timeliness};
pub(crate) use holdings::{Holding, Holdings};
pub(crate) use limiter::ConcurrencyLimiter;
pub(crate) use lookups::{LookError, Lookups};
pub(crate) use parent_states::ParentStates;
pub(crate) use recent::Recent;
pub(crate) use refusal_log::RefusalLog;
pub(crate) use room::{Place, Room, RunMemory};
pub(crate) use roster::Roster;
pub use session::WorkerSession;
pub(crate) use stalled_runs::{StalledRuns, SuspectGroup};
pub(crate) use tallies::Tallies;
pub(crate) use waiting_claims::WaitingClaims;

/// How long a process sleeps at most before it looks for runs that are due.
pub(crate) const POLL_EVERY: Duration = Duration::from_secs(1);

/// Why the engine could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The database did not answer.
    #[error(transparent)]
    Database(#[from] ReadError),
    /// The HTTP client could not be set up.
    #[error(transparent)]
    Http(#[from] semel_steps::SetupError),
}

/// What commands and services share.
pub struct Runtime {
    pub(crate) cell: Cell,
    pub(crate) options: Options,
    pub(crate) clock: Clock,
    pub(crate) catalogue: Catalogue,
    pub(crate) vault: Vault,
    /// What operators paused.
    pub(crate) pauses: PauseCache,
    /// What the executors of all sessions share.
    pub(crate) reach: Reach,
    pub(crate) metrics: Metrics,
    pub(crate) writers: Writers,
    pub(crate) limiter: ConcurrencyLimiter,
    pub(crate) signals: Signals,
    /// Which servers are live, and so which duties are this one's.
    pub(crate) roster: watch::Sender<Roster>,
    /// The passes of background services.
    pub(crate) duties: Duties,
    pub(crate) shutdown: Shutdown,
    pub(crate) work: Work,
    pub(crate) local: Local,
    /// Nothing in a process that serves.
    pub(crate) rehearsal: Option<Rehearsal>,
    /// The lock of the state folder, in a process that serves and has a folder whose locks can be trusted.
    pub(crate) lock: Option<StateLock>,
    session: RwLock<Arc<WorkerSession>>,
}

/// The writers that gather commits, one for each kind of write.
pub(crate) struct Writers {
    pub(crate) accept: Writer<Accept>,
    pub(crate) record: Writer<TransitionBatch>,
    pub(crate) waits: Writer<CallbackBatch>,
    pub(crate) tasks: Writer<TaskAnswerBatch>,
    pub(crate) approvals: Writer<DecisionBatch>,
    pub(crate) versions: Writer<VersionBatch>,
    pub(crate) duplicates: Tally,
}

/// Signals from one part of the process to another.
#[derive(Default)]
pub(crate) struct Signals {
    /// A run may be due.
    pub(crate) wake: Notify,
    /// What is cached of the configuration is out of date.
    pub(crate) config_changed: Notify,
    /// An event has many waits to complete.
    pub(crate) broadcast: Notify,
    /// A run of this process has emitted an event.
    pub(crate) emitted: Notify,
    /// This process has dispatched events, of which webhooks may have deliveries.
    pub(crate) deliveries_due: Notify,
    /// This process changed what is scheduled.
    pub(crate) scheduled: Notify,
    /// An operator made a run job.
    pub(crate) job_made: Notify,
    /// An operator ended a pause.
    pub(crate) resumed: Notify,
    /// An operator made or applied a replay plan.
    pub(crate) planned: Notify,
    /// This process has the lock of its state folder since now.
    pub(crate) lock_taken: Notify,
    /// Claims that wait for tasks, which a run of this process may open.
    pub(crate) waiting_claims: WaitingClaims,
}

/// How the parts of the process learn that it stops.
#[derive(Default)]
pub(crate) struct Shutdown {
    /// No more runs are taken.
    pub(crate) requested: CancellationToken,
    /// The runs in hand have reached their last commit: the services that they need may end.
    pub(crate) drained: CancellationToken,
    /// Writes that outlast the database's absence end: the process can wait no longer.
    pub(crate) giving_up: CancellationToken,
}

/// The runs that this process holds.
pub(crate) struct Work {
    pub(crate) room: Room,
    pub(crate) turns: TaskTracker,
    /// The runs that this process carries for its session.
    pub(crate) holdings: Arc<Holdings>,
    /// Runs that cannot be loaded, and the held run that may crash the process.
    pub(crate) stalled: StalledRuns,
    /// Takes single runs for operators' commands, which wait in line here.
    pub(crate) single: tokio::sync::Mutex<Taker>,
}

/// Caches of this process.
#[derive(Default)]
pub(crate) struct Local {
    pub(crate) completions: Arc<Completions>,
    pub(crate) children: Arc<ChildNotify>,
    pub(crate) parents: ParentStates,
    pub(crate) questions: Asking,
    pub(crate) recent: Recent,
    pub(crate) auth_failures: AuthFailures,
    pub(crate) refusals: RefusalLog,
    /// Which namespaces have as many runs waiting as they may.
    pub(crate) backlogs: Backlogs,
    /// What is added to the database every few seconds.
    pub(crate) tallies: Tallies,
    /// Look-ups of releases that are not known here.
    pub(crate) release_lookups: Lookups,
    /// Look-ups of secrets and connections that are not known here.
    pub(crate) vault_lookups: Lookups,
}

impl Runtime {
    /// Begins a session, and reads what is cached.
    pub(crate) async fn start(
        cell: Cell,
        options: Options,
        rehearsal: Option<Rehearsal>,
    ) -> Result<Self, StartError> {
        let reach = Reach {
            stage: rehearsal.as_ref().map(|rehearsal| rehearsal.stage.clone()),
            ..reach(&options)
        };
        let signals = Signals::default();
        let folder = options.state_dir.as_deref().filter(|_| rehearsal.is_none());
        let lock = folder.and_then(|folder| StateLock::open(folder, options.lease));
        if let Some(lock) = &lock
            && lock.became_holder().await
        {
            signals.lock_taken.notify_one();
        }
        let Options { process, lease, .. } = &options;
        let session = WorkerSession::begin(&cell, process, *lease, &reach, lock.as_ref()).await?;
        Ok(Self {
            clock: Clock::start(&cell).await?,
            catalogue: Catalogue::load(&cell).await?,
            vault: Vault::open(&cell, options.masters.clone()).await?,
            pauses: PauseCache::load(&cell).await?,
            reach,
            metrics: Metrics::default(),
            writers: Writers::start(&cell),
            limiter: ConcurrencyLimiter::start(&cell),
            signals,
            roster: watch::Sender::default(),
            duties: Duties::default(),
            shutdown: Shutdown::default(),
            work: Work {
                room: Room::new(options.capacity),
                turns: TaskTracker::new(),
                holdings: Arc::default(),
                stalled: StalledRuns::default(),
                single: tokio::sync::Mutex::new(Taker::new(&cell)),
            },
            local: Local::default(),
            rehearsal,
            lock,
            session: RwLock::new(Arc::new(session)),
            options,
            cell,
        })
    }

    /// The database that the engine works on.
    pub fn cell(&self) -> &Cell {
        &self.cell
    }

    /// What the engine did since the process started.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// What the engine was started with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The database's time, as far as the process can tell.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Whether the process may take and move runs now.
    pub fn has_live_session(&self) -> bool {
        self.session().is_live()
    }

    /// The session of this process.
    pub(crate) fn session(&self) -> Arc<WorkerSession> {
        let session = self.session.read();
        session.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces a session that was lost.
    pub(crate) fn set_session(&self, session: Arc<WorkerSession>) {
        *self.session.write().unwrap_or_else(PoisonError::into_inner) = session;
    }

    /// Where the connections of a release lead.
    pub(crate) fn destinations(&self, release: &Release) -> Arc<Destinations> {
        match release.connected {
            true => self.vault.destinations(release.namespace_id),
            false => Arc::default(),
        }
    }

    /// How long after its intent a request may still land.
    pub(crate) fn landing(&self) -> Landing {
        let room = u64::try_from(ROOM_WAIT_MAX.as_millis()).unwrap_or(u64::MAX);
        Landing {
            lease: self.options.lease,
            // Nothing waits for room on the stage of a rehearsal.
            room: match self.rehearsal {
                Some(_) => Span::default(),
                None => Span::from_millis(room),
            },
            acts_within: self.options.settle_margin,
        }
    }

    /// Takes over what a look found out: the time, who is live, and whether what is cached is current.
    pub(crate) fn note_look(&self, look: &Look) {
        self.clock.set(look.now);
        self.work.room.share(look.has_several_namespaces);
        self.reach.limits.divide_by(look.servers);
        let me = self.session().id;
        self.roster
            .send_if_modified(|known| known.follow(me, look.sessions.clone()));
        let is_current = self.catalogue.version() == look.config_version
            && self.vault.version() == look.config_version
            && self.pauses.current().version() == look.pause_version;
        if !is_current {
            self.signals.config_changed.notify_one();
        }
    }

    /// Wakes the poller where a run is due before it would look by itself.
    pub(crate) fn expect_due(&self, due_at: Timestamp) {
        if due_at < self.clock.now() + POLL_EVERY {
            self.signals.wake.notify_one();
        }
    }

    /// Returns a run to the queue that this process holds but does not move. Retried until the
    /// database answers; safe even where the run is no longer held, since the statement names the
    /// lease.
    pub(crate) fn return_to_queue(
        self: &Arc<Self>,
        (run, epoch): (RunId, i64),
        session: SessionId,
        cause: ReturnCause,
    ) {
        let runtime = self.clone();
        self.work.turns.spawn(async move {
            let mut pause = Duration::from_millis(50);
            while runtime.session().id == session {
                match queue::return_runs(&runtime.cell, session, &[(run, epoch)], cause).await {
                    Ok(_) => return runtime.signals.wake.notify_one(),
                    Err(error) => {
                        tracing::debug!(%error, run.id = %run, "failed to return the run to the queue; retrying")
                    }
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(2));
            }
        });
    }
}

impl Writers {
    fn start(cell: &Cell) -> Self {
        Self {
            accept: claims::start_accepting(cell),
            record: journal::start_recording(cell),
            waits: waits::start_answering(cell),
            tasks: tasks::start_settling(cell),
            approvals: approvals::start_deciding(cell),
            versions: object_versions::start_noting(cell),
            duplicates: Tally::start(cell),
        }
    }
}

/// What the executors of all sessions share.
fn reach(options: &Options) -> Reach {
    let mut egress = Egress::new(options.allow_private.clone())
        .without(options.own.iter().copied())
        .allowing_sockets(options.allow_sockets.iter().cloned());
    if let Some(own) = options.own_database {
        egress.close_database(own);
    }
    if let Some(hosts) = &options.allow_hosts {
        egress = egress.only(hosts.iter().cloned());
    }
    if let Some(proxy) = &options.http_proxy {
        egress = egress.through(proxy.clone());
    }
    Reach {
        resources: options.resources.clone(),
        ..Reach::new(egress)
            .with_capacity(options.capacity)
            .with_answer_bytes(options.answer_bytes)
    }
}

/// A fraction from 0 to 1, for jitter. Cheap, because every decision is offered one: the standard
/// library's hasher keys itself anew each time without asking the system.
pub(crate) fn jitter() -> f64 {
    let random = RandomState::new().hash_one(());
    random as f64 / u64::MAX as f64
}
