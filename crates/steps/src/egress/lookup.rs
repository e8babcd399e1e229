//! Looking names up.

use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;

/// The most lookups at once. The system's lookup blocks a thread for as long as name servers take,
/// and files are read and written by the same threads: slow names must not use them all up.
const LOOKUPS_MAX: usize = 64;

/// Looks up the addresses of names.
pub trait Lookup: Send + Sync + 'static {
    /// Every address of a name, asked again each time.
    fn lookup(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The system's way: its hosts file, then its name servers. Clones share one bound.
#[derive(Clone, Debug)]
pub struct System {
    room: Arc<Semaphore>,
}

impl Default for System {
    fn default() -> Self {
        Self {
            room: Arc::new(Semaphore::new(LOOKUPS_MAX)),
        }
    }
}

impl Lookup for System {
    fn lookup(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let name = name.to_owned();
        let room = self.room.clone();
        Box::pin(async move {
            let permit = room.acquire_owned().await.map_err(io::Error::other)?;
            let looking = tokio::task::spawn_blocking(move || {
                // Held until the thread is free again: a caller that stops waiting does not free
                // it.
                let _permit = permit;
                let found = (name.as_str(), 0).to_socket_addrs()?;
                Ok(found.map(|address| address.ip()).collect())
            });
            looking.await.map_err(io::Error::other)?
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lookup_waits_while_all_threads_for_lookups_are_taken() {
        let system = System {
            room: Arc::new(Semaphore::new(1)),
        };
        let taken = system.room.clone().acquire_owned().await.unwrap();

        let waiting = tokio::spawn(system.lookup("localhost"));
        tokio::task::yield_now().await;
        let waits = !waiting.is_finished();
        drop(taken);
        let found = waiting.await.unwrap().unwrap();

        assert!(waits, "there was no room");
        assert!(!found.is_empty());
    }
}
