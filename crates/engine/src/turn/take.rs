//! Taking a run into this process: what a poller found due, or the one that a command names.

use std::sync::Arc;
use std::time::Duration;

use semel_model::RunId;
use semel_store::queue::{self, ReturnCause, Taken};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::Turn;
use super::account::CROWDED_REST;
use super::command::CommandError;
use super::load::weigh;
use crate::runtime::{Holding, Place, RunMemory, Runtime, SuspectGroup, WorkerSession};

/// How long a take and what is loaded with it may stay unanswered. PostgreSQL's own limit is
/// shorter, so the connection is dead by then without an error.
const TAKE_PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn within_patience<T, E: std::fmt::Display>(
    taking: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match tokio::time::timeout(TAKE_PATIENCE, taking).await {
        Ok(taken) => taken.map_err(|error| error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

/// How many seconds sooner or later than others a run is due that waits for room to begin, for each
/// step of its flow's priority. A run that waits for longer than that goes first.
const HEAD_START_SECS: f64 = 10.0;

/// The most that any priority gives.
pub(crate) const HEAD_START_SECS_MAX: f64 = 10.0 * HEAD_START_SECS;

/// Changes the due time of a run that no worker had room for, as its flow's priority says.
pub(crate) async fn give_head_start(runtime: &Runtime, run: RunId, priority: i8) {
    let secs = f64::from(priority) * HEAD_START_SECS;
    if let Err(error) = queue::give_head_start(runtime.cell.of(run), run, secs).await {
        tracing::debug!(%error, run.id = %run, "failed to apply a run's priority");
    }
}

/// How long an operator's command waits for room among the runs of this process.
const ROOM_PATIENCE: Duration = Duration::from_secs(5);

/// How long an operator's command tries to take a run that a worker holds: a worker that looks at a
/// stopped run returns it at once. The last try may wait [`ROOM_PATIENCE`] and [`BEGIN_PATIENCE`] more.
const HELD_PATIENCE: Duration = Duration::from_secs(2);

/// How long it rests between two tries.
const HELD_PAUSE: Duration = Duration::from_millis(50);

/// How long a run that was taken waits for a place, and then for memory before it continues without. With a
/// limit: the holder of the memory may wait for this very run.
const BEGIN_PATIENCE: Duration = Duration::from_secs(5);

/// How often it looks for memory. It does not queue: what is free meanwhile stays free for runs that need less.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A run that takes less, or less than its even share, waits for no memory: beside a full budget all of them take
/// about as much again, at most.
const SMALL_BYTES: usize = 64 << 10;

/// A run that was taken and has not begun.
pub(crate) struct RunToBegin {
    pub(crate) taken: Taken,
    pub(crate) session: Arc<WorkerSession>,
    /// Until the turn has entered the run, or the run is on its way back to the queue.
    pub(crate) holding: Holding,
}

/// What a run needs to begin, and does not find.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lack {
    Place,
    /// No place in the namespace's share for a run of a suspect group: it rests, because a take of suspects ignores
    /// shares and would take it again at once.
    Share,
    Memory,
    /// Nothing: the process stops.
    Stopping,
}

impl Runtime {
    /// Begins the runs of a take, each if there is a place and memory for it now. If not, it waits in a task of its
    /// own, because the others are waiting; where enough runs wait, it goes back to the queue.
    pub(crate) async fn begin_all(self: &Arc<Self>, runs: Vec<RunToBegin>) {
        let mut left = Vec::new();
        for run in runs {
            self.metrics.taken.add_one();
            let (namespace_id, weight) = (run.taken.namespace_id, weigh(&run.taken));
            match self.find_place(namespace_id, weight) {
                Ok(place) => self.begin(run, place, None).await,
                Err(lack) => left.extend(self.wait(run, weight).map(|run| (run, lack))),
            }
        }
        self.put_back(left);
    }

    /// Begins a group of runs that were taken before without progress. Each process has one group at the most.
    pub(crate) fn begin_suspects(
        self: &Arc<Self>,
        runs: Vec<RunToBegin>,
        right: OwnedSemaphorePermit,
    ) {
        let alone = runs.len() == 1;
        let group = Arc::new(SuspectGroup::new(right));
        for run in runs {
            self.begin_suspect(run, group.clone(), alone);
        }
    }

    /// A run that is taken alone waits for nobody's share, and continues without memory if there is none in time.
    fn begin_suspect(self: &Arc<Self>, run: RunToBegin, group: Arc<SuspectGroup>, alone: bool) {
        self.metrics.taken.add_one();
        let (namespace_id, weight) = (run.taken.namespace_id, weigh(&run.taken));
        let runtime = self.clone();
        let place = async move {
            if !alone {
                let place = runtime.await_place(namespace_id, weight).await;
                return place.map_err(|lack| match lack {
                    Lack::Place => Lack::Share,
                    Lack::Share | Lack::Memory | Lack::Stopping => lack,
                });
            }
            let place = runtime.work.room.enter_uncounted();
            let place = tokio::time::timeout(BEGIN_PATIENCE, place).await;
            let place = place.ok().flatten().ok_or(Lack::Place)?;
            let memory = runtime.await_memory_or_none(namespace_id, weight);
            Ok(place.with(memory.await))
        };
        self.begin_with(run, place, Some(group));
    }

    /// Begins a run later, if it may wait; gives it back if not.
    fn wait(self: &Arc<Self>, run: RunToBegin, weight: usize) -> Option<RunToBegin> {
        let namespace_id = run.taken.namespace_id;
        let Some(waiting) = self.work.room.try_wait(namespace_id) else {
            return Some(run);
        };
        let runtime = self.clone();
        let place = async move {
            let place = runtime.await_place(namespace_id, weight).await;
            drop(waiting);
            place
        };
        self.begin_with(run, place, None);
        None
    }

    /// Begins a run as soon as it has a place, in a task of its own; puts it back where it gets none, or where the
    /// process stops first.
    fn begin_with(
        self: &Arc<Self>,
        run: RunToBegin,
        place: impl Future<Output = Result<Place, Lack>> + Send + 'static,
        suspect: Option<Arc<SuspectGroup>>,
    ) {
        let runtime = self.clone();
        self.work.turns.spawn(Box::pin(async move {
            let place = tokio::select! {
                place = place => place,
                () = runtime.shutdown.requested.cancelled() => Err(Lack::Stopping),
            };
            match place {
                Ok(place) => runtime.begin(run, place, suspect).await,
                Err(lack) => runtime.put_back(vec![(run, lack)]),
            }
        }));
    }

    async fn begin(
        self: &Arc<Self>,
        run: RunToBegin,
        place: Place,
        suspect: Option<Arc<SuspectGroup>>,
    ) {
        let RunToBegin {
            taken,
            session,
            holding: _holding,
        } = run;
        match self.load(taken, session, place).await {
            Ok(turn) => {
                self.work.turns.spawn(turn.suspected(suspect).drive());
            }
            Err(unloaded) => self.put_off(unloaded).await,
        }
    }

    /// Puts the runs of a take back that do not begin, as if they had not been taken. Those without memory rest, and so
    /// do suspects.
    fn put_back(self: &Arc<Self>, runs: Vec<(RunToBegin, Lack)>) {
        self.metrics.runs_put_back.add(runs.len() as u64);
        let (resting, others): (Vec<_>, Vec<_>) = runs
            .into_iter()
            .partition(|(_, lack)| matches!(lack, Lack::Memory | Lack::Share));
        for (run, lack) in &resting {
            if *lack == Lack::Memory {
                self.work.room.note_crowded(run.taken.namespace_id);
            }
        }
        self.return_unbegun(resting, Some(CROWDED_REST));
        self.return_unbegun(others, None);
    }

    /// In one write: others wait for the connection.
    fn return_unbegun(self: &Arc<Self>, runs: Vec<(RunToBegin, Lack)>, rest: Option<Duration>) {
        let Some((first, _)) = runs.first() else {
            return;
        };
        let (session, charged) = (first.session.id, first.taken.charged);
        // Without their journals.
        let lease = |(run, _): (RunToBegin, Lack)| ((run.taken.run, run.taken.epoch), run.holding);
        let (leases, holdings): (Vec<_>, Vec<Holding>) = runs.into_iter().map(lease).unzip();
        let runtime = self.clone();
        self.work.turns.spawn(async move {
            let charge = charged.into();
            let put_back = queue::put_back(&runtime.cell, session, &leases, charge, rest).await;
            if let Err(error) = put_back {
                tracing::debug!(%error, runs = leases.len(), "failed to put runs back; retrying");
                let cause = match charged {
                    true => ReturnCause::Stopping,
                    false => ReturnCause::Overtaken,
                };
                for lease in leases {
                    runtime.return_to_queue(lease, session, cause);
                }
            }
            drop(holdings);
        });
    }

    /// A place and memory for a run, if there are both now.
    fn find_place(&self, namespace_id: i32, weight: usize) -> Result<Place, Lack> {
        let place = self.work.room.try_enter(namespace_id).ok_or(Lack::Place)?;
        let memory = self.find_memory(namespace_id, weight);
        Ok(place.with(memory.ok_or(Lack::Memory)?))
    }

    /// How many bytes a run may take beside the memory for runs.
    pub(super) fn small_bytes(&self) -> usize {
        let share = self.options.memory.even_share(self.options.capacity);
        share.max(SMALL_BYTES)
    }

    /// Memory for a run, if there is some now. A small one needs none.
    fn find_memory(&self, namespace_id: i32, weight: usize) -> Option<RunMemory> {
        let budget = &self.options.memory;
        let small = self.small_bytes();
        let memory = self.work.room.try_memory(budget, namespace_id, weight);
        memory.or_else(|| (weight <= small).then_some(RunMemory::Uncounted))
    }

    /// A place and memory for a run, as soon as there are both. If there is no memory in time, the run continues
    /// without, unless enough do.
    async fn await_place(&self, namespace_id: i32, weight: usize) -> Result<Place, Lack> {
        let place = self.work.room.enter(namespace_id);
        let place = tokio::time::timeout(BEGIN_PATIENCE, place).await;
        let place = place.ok().flatten().ok_or(Lack::Place)?;
        if let Some(memory) = self.await_memory(namespace_id, weight).await {
            return Ok(place.with(memory));
        }
        let memory = self.work.room.try_without_memory(namespace_id);
        let memory = memory.ok_or(Lack::Memory)?;
        self.metrics.runs_without_memory.add_one();
        Ok(place.with(memory))
    }

    async fn await_memory(&self, namespace_id: i32, weight: usize) -> Option<RunMemory> {
        let until = Instant::now() + BEGIN_PATIENCE;
        loop {
            let memory = self.find_memory(namespace_id, weight);
            if memory.is_some() || Instant::now() >= until {
                return memory;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The same for a run that continues without where there is none in time.
    async fn await_memory_or_none(&self, namespace_id: i32, weight: usize) -> RunMemory {
        match self.await_memory(namespace_id, weight).await {
            Some(memory) => memory,
            None => {
                self.metrics.runs_without_memory.add_one();
                RunMemory::Uncounted
            }
        }
    }

    /// Takes a run as any worker does, for an operator's command.
    pub(crate) async fn take(self: &Arc<Self>, run: RunId) -> Result<Turn, CommandError> {
        let (until, stop) = (Instant::now() + HELD_PATIENCE, &self.shutdown.requested);
        loop {
            match self.take_now(run).await {
                Err(CommandError::Busy) if Instant::now() < until && !stop.is_cancelled() => {
                    tokio::time::sleep(HELD_PAUSE).await;
                }
                taken => return taken,
            }
        }
    }

    async fn take_now(self: &Arc<Self>, run: RunId) -> Result<Turn, CommandError> {
        let session = self.session();
        let room = self.work.room.enter_uncounted();
        let Ok(Some(place)) = tokio::time::timeout(ROOM_PATIENCE, room).await else {
            return Err(CommandError::Busy);
        };
        let id = session.id;
        let mut taker = self.work.single.lock().await;
        // Until the turn has entered the run, or no turn of this process will begin to carry it.
        let holding = self.work.holdings.carry(id, run);
        let taken = match within_patience(taker.take_one(id, run)).await {
            Ok(taken) => taken,
            Err(error) => {
                drop(holding);
                self.work.holdings.ask_after_failure();
                taker.recover_link().await;
                return Err(CommandError::Unavailable(error));
            }
        };
        drop(taker);
        let (taken, now) = taken.ok_or(CommandError::Busy)?;
        self.clock.set(now);
        // Operators are few, and what they ask for may free memory.
        let memory = self.await_memory_or_none(taken.namespace_id, weigh(&taken));
        let place = place.with(memory.await);
        match self.load(taken, session, place).await {
            Ok(turn) => Ok(turn),
            Err(unloaded) => {
                let error = unloaded.as_command_error();
                self.put_off(unloaded).await;
                Err(error)
            }
        }
    }
}
