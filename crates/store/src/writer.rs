//! Writers: many callers, one commit.
//!
//! While one batch is being committed, whatever arrives gathers and is written together next. There
//! is no timer: a lone caller waits for one commit, a thousand share one. A writer may have two
//! lanes, each with a connection of its own, so that one works while the other waits for the disk.
//! What has the same slot takes the same lane, unless so few callers wait that one lane is enough.
//!
//! An item that cannot share a commit with one of its batch is passed over: it is among the first
//! of the next, and those behind it do not wait for it, unless they are about the same thing.
//!
//! A writer never gives up on a write that may have happened. When the connection breaks, the same
//! batch is submitted again: every batch is made so that a second submission finds out whether the
//! first one took effect. Callers get a [`WriteError`] when the database stays away, refuses their item
//! or keeps it behind a lock twice, or when the process stops.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use semel_model::Slot;
use tokio::sync::{mpsc, oneshot, watch};

use crate::cell::Cell;

pub(crate) mod connection;
mod failed;
mod gathering;
mod lanes;
pub(crate) mod rows;

pub use connection::WriterConnection;
use connection::{ErrorClass, classify};
use failed::{Failed, HELD_UP_MAX, is_held_up};
use gathering::{Answer, Gathering, Waiting};
use lanes::{Caller, lane_of};

/// The most items of one batch.
pub const BATCH_ITEMS_MAX: usize = 512;

/// The most bytes of one batch, beyond its first item: what a batch costs in memory, several times
/// over, and what one statement carries.
pub const BATCH_BYTES_MAX: usize = 8 << 20;

/// The most bytes of one item. PostgreSQL takes messages of a gigabyte; an item that comes near that
/// is refused here, because a message that cannot be sent looks like a connection that broke.
pub const ITEM_BYTES_MAX: usize = 128 << 20;

/// How many callers may wait at one writer before the next must wait to be let in.
const WAITING_MAX: usize = 8192;

/// How many items may be passed over before no other item is let in.
const PASSED_OVER_MAX: usize = 4096;

/// Why a caller has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// The database did not answer: whether the write happened is not known. Repeating the same
    /// write is safe.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// The database refuses the write; it did not happen.
    #[error("the database refused the write: {0}")]
    Refused(String),
    /// The process is shutting down; the write did not happen.
    #[error("the writer has stopped")]
    Stopped,
}

/// One kind of batch.
pub trait Batch: Send + 'static {
    /// What a caller hands in.
    type Item: Send + 'static;
    /// What it gets back.
    type Answer: Send + 'static;
    /// What is remembered of the items of a batch that gathers, to say whether another may join.
    type Gathered: Default + Send;

    /// How many lanes there are.
    const LANES: usize;

    /// How many callers must wait at once before all lanes are used: few fill one batch better than
    /// two.
    const SECOND_LANE_FROM: usize = 0;

    /// The same, together with those who wait at the writer beside this one, while some do.
    const SECOND_LANE_BESIDE: usize = 0;

    /// Where those are counted who wait at this writer.
    fn callers(_cell: &Cell) -> Arc<AtomicUsize> {
        Arc::default()
    }

    /// Where those are counted who wait at the writer beside this one.
    fn callers_beside(_cell: &Cell) -> Arc<AtomicUsize> {
        Arc::default()
    }

    /// The slot of what an item is about.
    fn slot(item: &Self::Item) -> Slot;

    /// What an item is about: two items about one thing keep their order within a lane. Across lanes
    /// the batch's own fence decides.
    fn subject(item: &Self::Item) -> u128 {
        u128::from(Self::slot(item).number())
    }

    /// About how many bytes an item puts into the statement.
    fn bytes(_item: &Self::Item) -> usize {
        0
    }

    /// Takes note of an item that joins the batch, or says that it may not: it is passed over until
    /// the next. The first of a batch always may.
    fn admit(_gathered: &mut Self::Gathered, _next: &Self::Item) -> bool {
        true
    }

    /// Writes the batch in one commit and answers every item, in order.
    fn write(
        &mut self,
        connection: &mut WriterConnection,
        items: &mut Vec<Self::Item>,
    ) -> impl Future<Output = Result<Vec<Self::Answer>, tokio_postgres::Error>> + Send;
}

/// The callers' end of a writer.
pub struct Writer<B: Batch> {
    lanes: Vec<mpsc::Sender<Waiting<B>>>,
    callers: Arc<AtomicUsize>,
    beside: Arc<AtomicUsize>,
    stopping: watch::Sender<Option<Instant>>,
    held_up: Arc<AtomicUsize>,
}

impl<B: Batch> Clone for Writer<B> {
    fn clone(&self) -> Self {
        Self {
            lanes: self.lanes.clone(),
            callers: self.callers.clone(),
            beside: self.beside.clone(),
            stopping: self.stopping.clone(),
            held_up: self.held_up.clone(),
        }
    }
}

impl<B: Batch> Writer<B> {
    /// Starts a writer. It ends when the last caller is gone.
    pub fn start(cell: &Cell, batch: impl Fn() -> B) -> Self {
        let (stopping, stops) = watch::channel(None);
        let held_up = Arc::new(AtomicUsize::new(0));
        let lane = |_| {
            let (sender, receiver) = mpsc::channel(WAITING_MAX);
            let desk = Desk {
                connection: WriterConnection::new(cell),
                patience: cell.options().write_patience,
                give_up: cell.options().write_give_up,
                stopping: stops.clone(),
                held_up: held_up.clone(),
                is_held_up: false,
                batch: batch(),
            };
            tokio::spawn(desk.serve(receiver));
            sender
        };
        Self {
            lanes: (0..B::LANES).map(lane).collect(),
            callers: B::callers(cell),
            beside: B::callers_beside(cell),
            stopping,
            held_up,
        }
    }

    /// Tries until then and no longer, because the process stops: what is not confirmed by then ends
    /// as [`WriteError::Unavailable`].
    pub fn stop_trying(&self, until: Instant) {
        self.stopping.send_replace(Some(until));
    }

    /// Hands an item in and waits for the commit that carries it.
    pub async fn write(&self, item: B::Item) -> Result<B::Answer, WriteError> {
        let bytes = B::bytes(&item);
        if bytes > ITEM_BYTES_MAX {
            let reason = format!("{bytes} bytes are more than one write may have");
            return Err(WriteError::Refused(reason));
        }
        let others = self.callers.fetch_add(1, Ordering::Relaxed);
        let _caller = Caller(&self.callers);
        // While a batch waits for a lock or for an answer that does not come, the other lane is open to half
        // of the others.
        let crowd = match self.held_up.load(Ordering::Relaxed) {
            0 => others,
            _ => usize::MAX,
        };
        let lane = lane_of::<B>(crowd, self.beside.load(Ordering::Relaxed), &item);
        let (answer, answered) = oneshot::channel();
        self.lanes[lane]
            .send(Waiting {
                item,
                bytes,
                answer,
            })
            .await
            .map_err(|_| WriteError::Stopped)?;
        answered.await.map_err(|_| WriteError::Stopped)?
    }
}

struct Desk<B: Batch> {
    connection: WriterConnection,
    patience: Duration,
    /// How long a batch is tried before its callers get an error: the database is unavailable.
    give_up: Duration,
    stopping: watch::Receiver<Option<Instant>>,
    /// How many lanes wait for a lock that another session keeps, or were not answered.
    held_up: Arc<AtomicUsize>,
    /// Whether it is one of this lane.
    is_held_up: bool,
    batch: B,
}

impl<B: Batch> Desk<B> {
    async fn serve(mut self, mut receiver: mpsc::Receiver<Waiting<B>>) {
        let mut passed_over = VecDeque::new();
        let mut crowded = false;
        loop {
            if passed_over.is_empty() {
                match receiver.recv().await {
                    Some(waiting) => passed_over.push_back(waiting),
                    None => return,
                }
            }
            let mut gathering = Gathering::begin(passed_over);
            let mut gathered = 0;
            while gathered < gathering.items.len() && gathering.has_room() {
                gathered = gathering.items.len();
                // In a crowd, callers that are ready to submit an item do so first. The writer
                // waits for none of them.
                if crowded {
                    tokio::task::yield_now().await;
                }
                while gathering.has_room()
                    && let Ok(next) = receiver.try_recv()
                {
                    gathering.offer(next);
                }
            }
            crowded = gathering.items.len() > 1;
            passed_over = gathering.passed_over;
            self.settle(gathering.items, gathering.answers).await;
            self.note_held_up(false);
        }
    }

    async fn settle(&mut self, mut items: Vec<B::Item>, answers: Vec<Answer<B>>) {
        let wanted = answers.len();
        match self.persist(&mut items).await {
            Ok(results) => {
                assert_eq!(results.len(), wanted, "every item has an answer");
                for (answer, result) in answers.into_iter().zip(results) {
                    // A caller that no longer waits has lost nothing: the commit stands.
                    let _ = answer.send(Ok(result));
                }
            }
            // One item that the database refuses, or that another session's lock holds up, must not
            // take the others with it.
            Err(Failed::Refused(_) | Failed::HeldUp(_)) if wanted > 1 => {
                for (item, answer) in items.into_iter().zip(answers) {
                    let alone = self.persist(&mut vec![item]).await;
                    let alone = alone.map_err(WriteError::from);
                    let _ =
                        answer.send(alone.and_then(|mut one| one.pop().ok_or(WriteError::Stopped)));
                }
            }
            Err(failed) => {
                let error = WriteError::from(failed);
                for answer in answers {
                    let _ = answer.send(Err(error.clone()));
                }
            }
        }
    }

    /// While a lane waits for a lock or for an answer, callers are spread over all lanes.
    fn note_held_up(&mut self, is_held_up: bool) {
        match (self.is_held_up, is_held_up) {
            (false, true) => drop(self.held_up.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(self.held_up.fetch_sub(1, Ordering::Relaxed)),
            (true, true) | (false, false) => {}
        }
        self.is_held_up = is_held_up;
    }

    /// Submits the batch until it is known to be written or refused, until it was held up twice by
    /// what others have locked, or until the process stops.
    async fn persist(&mut self, items: &mut Vec<B::Item>) -> Result<Vec<B::Answer>, Failed> {
        let begun = Instant::now();
        let mut held_up = 0;
        loop {
            let writing =
                tokio::time::timeout(self.patience, self.batch.write(&mut self.connection, items));
            let written = tokio::select! {
                biased;
                written = writing => written,
                () = too_late(&mut self.stopping) => {
                    self.connection.give_up();
                    return Err(Failed::Unavailable(
                        "the process stops before the write is confirmed".to_owned(),
                    ));
                }
            };
            let message = match written {
                Ok(Ok(answers)) => {
                    self.connection.succeeded();
                    return Ok(answers);
                }
                Ok(Err(error)) => match classify(&error) {
                    ErrorClass::Refused | ErrorClass::Fenced => {
                        return Err(Failed::Refused(describe(&error)));
                    }
                    ErrorClass::Again => {
                        held_up += u32::from(is_held_up(&error));
                        if held_up > 0 {
                            self.note_held_up(true);
                        }
                        // A process that stops has no time for a second try of all together.
                        let stops = self.stopping.borrow().is_some();
                        if held_up >= HELD_UP_MAX || (stops && held_up > 0 && items.len() > 1) {
                            return Err(Failed::HeldUp(describe(&error)));
                        }
                        describe(&error)
                    }
                    ErrorClass::Unknown => {
                        self.note_held_up(true);
                        self.connection.give_up();
                        describe(&error)
                    }
                    ErrorClass::Unfit => {
                        self.connection.give_up();
                        format!("waiting for a primary: {}", describe(&error))
                    }
                },
                Err(_) => {
                    self.note_held_up(true);
                    self.connection.give_up();
                    "no answer in time".to_owned()
                }
            };
            if begun.elapsed() > self.give_up {
                return Err(Failed::Unavailable(message));
            }
            tracing::warn!(
                items = items.len(),
                reason = message,
                "a batch is submitted again"
            );
            tokio::select! {
                () = self.connection.rest() => {}
                () = too_late(&mut self.stopping) => return Err(Failed::Unavailable(message)),
            }
        }
    }
}

/// Ends when a process that stops can wait no longer for a write.
async fn too_late(stopping: &mut watch::Receiver<Option<Instant>>) {
    let until = stopping
        .wait_for(Option::is_some)
        .await
        .ok()
        .and_then(|it| *it);
    match until {
        Some(until) => tokio::time::sleep_until(until.into()).await,
        // The sender is gone, so no signal will come.
        None => std::future::pending().await,
    }
}

/// The server's own words, where there are any.
pub(crate) fn describe(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(words) => format!("{} ({})", words.message(), words.code().code()),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
