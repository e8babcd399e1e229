//! Looking names up.
//!
//! ```text
//! in flight for this namespace ─▶ its answer
//! else ─▶ room of the namespace ─▶ room of the server ─▶ a thread asks ─▶ the answer
//! ```

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// The most lookups at once. The system's lookup blocks a thread for as long as name servers take,
/// and files are read and written by the same threads: slow names must not use them all up.
const LOOKUPS_MAX: usize = 64;

/// The most lookups of one namespace at once: its slow names must not take the room of the others.
const NAMESPACE_LOOKUPS_MAX: usize = 16;

/// Looks up the addresses of names.
pub trait Lookup: Send + Sync + 'static {
    /// Every address of a name that a namespace wants to reach. Nothing is remembered: only those
    /// who ask at the same time share an answer.
    fn lookup(&self, namespace_id: i32, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// A namespace, and a name that it asks for.
type Question = (i32, String);

/// One of the namespace and one of the server.
type Permits = (OwnedSemaphorePermit, OwnedSemaphorePermit);

/// The answer that a thread will send.
type Pending = Shared<oneshot::Receiver<Result<Vec<IpAddr>, Arc<io::Error>>>>;

/// The system's way: its hosts file, then its name servers. Clones share one bound.
#[derive(Clone, Debug)]
pub struct System {
    ask: fn(&str) -> io::Result<Vec<IpAddr>>,
    room: Arc<Semaphore>,
    in_flight: Arc<Mutex<InFlight>>,
}

/// The questions that threads ask now.
#[derive(Debug, Default)]
struct InFlight {
    /// The room of each namespace. Those without lookups go when another namespace comes.
    rooms: HashMap<i32, Arc<Semaphore>>,
    answers: HashMap<Question, Pending>,
}

impl Default for System {
    fn default() -> Self {
        Self::asking(|name| {
            let found = (name, 0).to_socket_addrs()?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

impl Lookup for System {
    fn lookup(&self, namespace_id: i32, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let (system, question) = (self.clone(), (namespace_id, name.to_owned()));
        Box::pin(async move {
            let answer = system.begin(question).await?.await;
            answer.map_err(io::Error::other)?.map_err(io::Error::other)
        })
    }
}

impl System {
    fn asking(ask: fn(&str) -> io::Result<Vec<IpAddr>>) -> Self {
        Self {
            ask,
            room: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            in_flight: Arc::default(),
        }
    }

    /// The answer to a question: in flight already, or asked for once there is room.
    async fn begin(&self, question: Question) -> io::Result<Pending> {
        let own_room = {
            let mut in_flight = self.in_flight();
            if let Some(answer) = in_flight.answers.get(&question) {
                return Ok(answer.clone());
            }
            in_flight.room_of(question.0)
        };
        let own = own_room.acquire_owned().await.map_err(io::Error::other)?;
        let room = self.room.clone().acquire_owned().await;
        let room = room.map_err(io::Error::other)?;
        Ok(self.spawn(question, (own, room)))
    }

    fn spawn(&self, question: Question, permits: Permits) -> Pending {
        let (sender, receiver) = oneshot::channel();
        let answer = receiver.shared();
        {
            let mut in_flight = self.in_flight();
            // Another may have been first while this one waited.
            if let Some(answer) = in_flight.answers.get(&question) {
                return answer.clone();
            }
            in_flight.answers.insert(question.clone(), answer.clone());
        }
        let asking = Asking {
            system: self.clone(),
            question,
            _permits: permits,
        };
        tokio::task::spawn_blocking(move || {
            let found = (asking.system.ask)(&asking.question.1);
            drop(asking);
            sender.send(found.map_err(Arc::new)).ok();
        });
        answer
    }

    fn in_flight(&self) -> MutexGuard<'_, InFlight> {
        let in_flight = self.in_flight.lock();
        in_flight.unwrap_or_else(PoisonError::into_inner)
    }
}

impl InFlight {
    fn room_of(&mut self, namespace_id: i32) -> Arc<Semaphore> {
        if let Some(room) = self.rooms.get(&namespace_id) {
            return room.clone();
        }
        // A lookup that waits for room or has some holds a clone.
        self.rooms.retain(|_, room| Arc::strong_count(room) > 1);
        let room = Arc::new(Semaphore::new(NAMESPACE_LOOKUPS_MAX));
        self.rooms.insert(namespace_id, room.clone());
        room
    }
}

/// A question in flight. It belongs to the thread that asks: a caller that stops waiting does not
/// free the thread.
struct Asking {
    system: System,
    question: Question,
    _permits: Permits,
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.system.in_flight().answers.remove(&self.question);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::future::join_all;

    use super::*;

    /// Slow names are answered while this is free.
    static SLOW: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

    fn ask(name: &str) -> io::Result<Vec<IpAddr>> {
        if name.starts_with("slow") {
            drop(SLOW.blocking_lock());
        }
        Ok(vec![IpAddr::from([127, 0, 0, 1])])
    }

    /// How many lookups are in flight once every task has gone as far as it can.
    async fn begun(system: &System) -> usize {
        for _ in 0..LOOKUPS_MAX {
            tokio::task::yield_now().await;
        }
        LOOKUPS_MAX - system.room.available_permits()
    }

    #[tokio::test]
    async fn a_lookup_waits_while_all_threads_for_lookups_are_taken() {
        let system = System::default();
        let all = u32::try_from(LOOKUPS_MAX).unwrap();
        let taken = system.room.clone().acquire_many_owned(all).await.unwrap();

        let waiting = tokio::spawn(system.lookup(7, "localhost"));
        tokio::task::yield_now().await;
        let waits = !waiting.is_finished();
        drop(taken);
        let found = waiting.await.unwrap().unwrap();

        assert!(waits, "there was no room");
        assert!(!found.is_empty());
    }

    #[tokio::test]
    async fn slow_names_of_one_namespace_leave_room_for_another() {
        let system = System::asking(ask);
        let slow = SLOW.lock().await;

        let names = (0..LOOKUPS_MAX).map(|index| format!("slow{index}.example"));
        let hanging = names.map(|name| tokio::spawn(system.lookup(1, &name)));
        let hanging: Vec<_> = hanging.collect();
        let begun = begun(&system).await;
        let other = system.lookup(2, "quick.example");
        let other = tokio::time::timeout(Duration::from_secs(5), other).await;
        drop(slow);
        let late = join_all(hanging).await;

        other.expect("it waited for the slow names").unwrap();
        assert_eq!(begun, NAMESPACE_LOOKUPS_MAX);
        assert!(late.iter().all(|found| matches!(found, Ok(Ok(_)))));
        system.lookup(3, "quick.example").await.unwrap();
        let in_flight = system.in_flight();
        assert_eq!(in_flight.rooms.len(), 1, "those without lookups are gone");
        assert!(in_flight.answers.is_empty());
    }

    #[tokio::test]
    async fn a_name_is_in_flight_once_in_each_namespace() {
        let system = System::asking(ask);
        let slow = SLOW.lock().await;

        let askers = [1, 1, 1, 2].map(|id| tokio::spawn(system.lookup(id, "slow.example")));
        let begun = begun(&system).await;
        drop(slow);
        let answers = join_all(askers).await;

        assert_eq!(begun, 2);
        assert!(answers.iter().all(|found| matches!(found, Ok(Ok(_)))));
    }
}
