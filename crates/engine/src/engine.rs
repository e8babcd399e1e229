//! The engine: what a process holds, and how it starts and stops.

use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use semel_model::run::State;
use semel_model::{RunId, SessionId};
use semel_steps::{Egress, Reach};
use semel_store::claims::{self, Accept};
use semel_store::clock::Clock;
use semel_store::duplicates::Tally;
use semel_store::journal::{self, Record};
use semel_store::object_versions::{self, Noting};
use semel_store::queue::{self, Cause, Taken, Taker};
use semel_store::runs::{self, Standing};
use semel_store::waits::{self, Answering};
use semel_store::writer::Writer;
use semel_store::{Cell, ReadError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::catalogue::{Catalogue, Release};
use crate::ends::Ends;
use crate::fans::Fans;
use crate::gates::Gatekeeper;
use crate::holdings::{self, Holdings};
use crate::intake::{Refusing, Unproven};
use crate::landing::Landing;
use crate::lease::{self, Tenure};
use crate::lineage::Lineage;
use crate::llm::Asking;
use crate::looks::Looks;
use crate::metrics::Metrics;
use crate::outside::Desks;
use crate::recent::Recent;
pub use crate::secret::{Secret, SecretError};
use crate::stuck::Stuck;
use crate::vault::{Linked, Vault};
use crate::{events, gates, recover, retain, schedule, spill};

mod options;
mod stop;

pub use options::Options;

/// How often somebody who waits for a run's end looks at the record, where nobody will tell.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How often a process asks whether what it knows of control data is stale.
const REFRESH_EVERY: Duration = Duration::from_millis(500);

/// How often they look where this process carries the run: its lease may have gone to another.
const LOOK_RARELY: Duration = Duration::from_secs(5);

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

/// Moves runs forward. Clones share one engine.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

/// What the parts of the engine share.
pub struct Inner {
    pub(crate) cell: Cell,
    pub(crate) options: Options,
    pub(crate) clock: Clock,
    pub(crate) catalogue: Catalogue,
    pub(crate) vault: Vault,
    /// What the executors of all sessions share.
    pub(crate) reach: Reach,
    pub(crate) metrics: Metrics,
    pub(crate) accept: Writer<Accept>,
    pub(crate) record: Writer<Record>,
    pub(crate) answering: Writer<Answering>,
    pub(crate) desks: Desks,
    pub(crate) gates: Gatekeeper,
    pub(crate) versions: Writer<Noting>,
    pub(crate) tally: Tally,
    pub(crate) room: Arc<Semaphore>,
    /// Runs that cannot be loaded, and the one in hand that may end the process.
    pub(crate) stuck: Stuck,
    pub(crate) wake: Notify,
    /// Told when an event has many waits to answer.
    pub(crate) broadcast: Notify,
    /// Told when a run of this process has emitted an event.
    pub(crate) emitted: Notify,
    /// Told when this process changed what is scheduled.
    pub(crate) scheduled: Notify,
    pub(crate) stop: CancellationToken,
    /// Ends what outlasts the database's absence, when a stopping process can wait no longer.
    pub(crate) giving_up: CancellationToken,
    pub(crate) turns: TaskTracker,
    /// Takes single runs for people's commands; the lock makes commands of a process wait in line.
    pub(crate) single: tokio::sync::Mutex<Taker>,
    /// Held by whoever locks a schedule for a person: one at a time, because the lock and the work
    /// under it need a connection each.
    pub(crate) by_hand: tokio::sync::Mutex<()>,
    tenure: RwLock<Arc<Tenure>>,
    pub(crate) ends: Arc<Ends>,
    /// What the session holds by this process's doing.
    pub(crate) holdings: Arc<Holdings>,
    pub(crate) fans: Arc<Fans>,
    pub(crate) lineage: Lineage,
    pub(crate) asking: Asking,
    pub(crate) recent: Recent,
    pub(crate) unproven: Unproven,
    pub(crate) refusing: Refusing,
    /// Looks for releases that are not known here.
    pub(crate) looks: Looks,
    /// Looks for secrets and connections that are not known here.
    pub(crate) vault_looks: Looks,
    duties: Mutex<Vec<tokio::task::AbortHandle>>,
}

impl Engine {
    /// Begins a session and starts every duty.
    pub async fn start(cell: Cell, options: Options) -> Result<Self, StartError> {
        let reach = reach(&options);
        let tenure = Tenure::begin(&cell, &options.process, options.lease, &reach).await?;
        let inner = Arc::new(Inner {
            clock: Clock::start(&cell).await?,
            catalogue: Catalogue::load(&cell).await?,
            vault: Vault::open(&cell, options.masters.clone()).await?,
            reach,
            metrics: Metrics::default(),
            accept: claims::start_accepting(&cell),
            record: journal::start_recording(&cell),
            answering: waits::start_answering(&cell),
            desks: Desks::start(&cell),
            gates: Gatekeeper::start(&cell),
            versions: object_versions::start_noting(&cell),
            tally: Tally::start(&cell),
            room: Arc::new(Semaphore::new(options.capacity)),
            stuck: Stuck::default(),
            wake: Notify::new(),
            broadcast: Notify::new(),
            emitted: Notify::new(),
            scheduled: Notify::new(),
            stop: CancellationToken::new(),
            giving_up: CancellationToken::new(),
            turns: TaskTracker::new(),
            single: tokio::sync::Mutex::new(Taker::new(&cell)),
            by_hand: tokio::sync::Mutex::default(),
            tenure: RwLock::new(Arc::new(tenure)),
            ends: Arc::default(),
            holdings: Arc::default(),
            fans: Arc::default(),
            lineage: Lineage::default(),
            asking: Asking::default(),
            recent: Recent::default(),
            unproven: Unproven::default(),
            refusing: Refusing::default(),
            looks: Looks::default(),
            vault_looks: Looks::default(),
            duties: Mutex::default(),
            options,
            cell,
        });
        if let Some(folder) = &inner.options.state_dir {
            // Before any run is taken, so that what happened is not done again.
            spill::hand_in(&inner.cell, folder, &inner.options.masters).await?;
        }
        inner.start_duties();
        Ok(Self { inner })
    }

    /// The database that the engine works on.
    pub fn cell(&self) -> &Cell {
        &self.inner.cell
    }

    /// What the engine did since the process started.
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// What the engine was started with.
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    /// Whether the process may take and move runs now.
    pub fn is_leading_a_live_session(&self) -> bool {
        self.inner.tenure().is_live()
    }

    /// Waits until a run has ended or is parked, and says how it stands then, or after `patience`.
    /// Nothing when there is no such run.
    pub async fn await_end(
        &self,
        run: RunId,
        patience: Duration,
    ) -> Result<Option<Standing>, ReadError> {
        let deadline = Instant::now() + patience;
        // Before the record is read, so that an end in between is not missed.
        let mut watch = self.inner.ends.watch(run);
        let over = |standing: &Standing| standing.state != State::Active;
        let mut look = !watch.is_carried();
        // Whoever waits is a request: it must not take a connection from the engine's work.
        let cell = self.inner.cell.for_people();
        loop {
            let now = Instant::now();
            if look || now >= deadline {
                let standing = runs::list_standings(&cell, &[run]).await?.pop();
                if now >= deadline || standing.as_ref().is_some_and(over) {
                    return Ok(standing);
                }
            }
            let pause = match watch.is_carried() {
                true => LOOK_RARELY,
                false => LOOK_EVERY,
            };
            match timeout_at(deadline.min(now + pause), watch.told()).await {
                Ok(Some(standing)) if over(&standing) => return Ok(Some(standing)),
                Ok(_) | Err(_) => look = true,
            }
        }
    }

    /// Closes further addresses of the installation itself to flows.
    pub fn close_addresses(&self, own: impl IntoIterator<Item = SocketAddr>) {
        self.inner.reach.egress.close(own);
    }
}

impl Inner {
    fn start_duties(self: &Arc<Self>) {
        let keep_fresh = {
            let inner = self.clone();
            async move { keep_fresh(&inner).await }
        };
        let duties = [
            tokio::spawn(lease::keep_renewing(self.clone())).abort_handle(),
            tokio::spawn(lease::keep_taking(self.clone())).abort_handle(),
            tokio::spawn(holdings::keep_reconciling(self.clone())).abort_handle(),
            tokio::spawn(recover::keep_recovering(self.clone())).abort_handle(),
            tokio::spawn(retain::keep_forgetting(self.clone())).abort_handle(),
            tokio::spawn(keep_fresh).abort_handle(),
            tokio::spawn(events::keep_spreading(self.clone())).abort_handle(),
            tokio::spawn(schedule::keep_ticking(self.clone())).abort_handle(),
            tokio::spawn(gates::keep_telling(self.clone())).abort_handle(),
        ];
        if let Ok(mut list) = self.duties.lock() {
            list.extend(duties);
        }
    }

    pub(crate) fn tenure(&self) -> Arc<Tenure> {
        match self.tenure.read() {
            Ok(tenure) => tenure.clone(),
            Err(poisoned) => poisoned.into_inner().clone(),
        }
    }

    pub(crate) fn set_tenure(&self, tenure: Arc<Tenure>) {
        match self.tenure.write() {
            Ok(mut slot) => *slot = tenure,
            Err(mut poisoned) => **poisoned.get_mut() = tenure,
        }
    }

    /// Where the connections of a release lead.
    pub(crate) fn linked(&self, release: &Release) -> Arc<Linked> {
        match release.connected {
            true => self.vault.linked(release.namespace_id),
            false => Arc::default(),
        }
    }

    /// How long after its intent a request may still land.
    pub(crate) fn landing(&self) -> Landing {
        Landing {
            lease: self.options.lease,
            acts_within: self.options.settle_margin,
        }
    }

    /// Carries on a run that was taken; `suspect` where it was taken before without progress.
    pub(crate) async fn go_on(
        self: Arc<Self>,
        taken: Taken,
        tenure: Arc<Tenure>,
        suspect: Option<OwnedSemaphorePermit>,
    ) {
        let Ok(permit) = self.room.clone().acquire_owned().await else {
            return;
        };
        match self.load(taken, tenure, permit).await {
            Ok(turn) => {
                self.turns.spawn(turn.suspected(suspect).drive());
            }
            Err(unloaded) => self.put_off(unloaded).await,
        }
    }

    /// Returns a run that this process holds but does not move. It is tried until the database
    /// answers; whether the run was still held is all the same, since the lease is named.
    pub(crate) fn hand_back(
        self: &Arc<Self>,
        (run, epoch): (RunId, i64),
        session: SessionId,
        cause: Cause,
    ) {
        let inner = self.clone();
        self.turns.spawn(async move {
            let mut pause = Duration::from_millis(50);
            while inner.tenure().session == session {
                match queue::return_runs(&inner.cell, session, &[(run, epoch)], cause).await {
                    Ok(_) => return inner.wake.notify_one(),
                    Err(error) => {
                        tracing::debug!(%error, run.id = %run, "could not return the run yet")
                    }
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(2));
            }
        });
    }
}

/// What the executors of all sessions share.
fn reach(options: &Options) -> Reach {
    let egress = Egress::new(options.allow_private.clone()).without(options.own.iter().copied());
    Reach {
        resources: options.resources.clone(),
        ..Reach::new(egress).with_capacity(options.capacity)
    }
}

/// Looks for changes of control data for as long as the process lives.
async fn keep_fresh(inner: &Inner) {
    loop {
        tokio::time::sleep(REFRESH_EVERY).await;
        if let Err(error) = inner.catalogue.refresh().await {
            tracing::debug!(%error, "the catalogue could not be looked at");
        }
        if let Err(error) = inner.vault.refresh().await {
            tracing::debug!(%error, "the vault could not be looked at");
        }
    }
}

/// A fraction from 0 to 1, for jitter. Cheap, because every decision is offered one: the standard
/// library's hasher keys itself anew each time without asking the system.
pub(crate) fn jitter() -> f64 {
    let random = RandomState::new().hash_one(());
    random as f64 / u64::MAX as f64
}
