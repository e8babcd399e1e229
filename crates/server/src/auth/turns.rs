//! Turns at looking a token up: many requests with one token that is not known at this moment ask for it once.
//!
//! A server that begins under load, or whose memory of a token lapses, would otherwise ask for it with every
//! request in flight, and answer those that find no connection in time as unavailable.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Mutex as Turn, OwnedMutexGuard};
use tokio::time::timeout;

use super::token_format::Presented;

/// How long a request waits for another one's answer. A database that does not answer must not make the requests
/// wait for it one after the other.
const PATIENCE: Duration = Duration::from_secs(1);

/// From how many on those that nobody waits for are removed.
const TIDIED_FROM: usize = 256;

/// Who looks up what, by name and secret: who knows only the name of a token is in no turn of its owner.
#[derive(Default)]
pub(super) struct Turns(Mutex<HashMap<Presented, Weak<Turn<()>>>>);

impl Turns {
    /// The turn at one token; none where the wait was in vain: then every request looks for itself.
    pub(super) async fn take(&self, presented: &Presented) -> Option<OwnedMutexGuard<()>> {
        timeout(PATIENCE, self.of(presented).lock_owned())
            .await
            .ok()
    }

    fn of(&self, presented: &Presented) -> Arc<Turn<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(presented).and_then(Weak::upgrade) {
            return turn;
        }
        if turns.len() >= TIDIED_FROM {
            turns.retain(|_, turn| turn.strong_count() > 0);
        }
        let turn = Arc::new(Turn::new(()));
        turns.insert(*presented, Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use uuid::Uuid;

    use super::*;

    fn token(name: u128, secret: u8) -> Presented {
        Presented {
            id: Uuid::from_u128(name),
            digest: [secret; 32],
        }
    }

    #[tokio::test]
    async fn many_that_need_one_token_look_it_up_once() {
        let (turns, looked) = (Turns::default(), AtomicUsize::new(0));
        let one = async || {
            let _turn = turns.take(&token(1, 1)).await;
            if looked.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
                looked.fetch_add(1, Ordering::SeqCst);
            }
        };

        join_all((0..50).map(|_| one())).await;

        assert_eq!(looked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn nobody_waits_long_nor_for_another_token() {
        let turns = Turns::default();
        let _held = turns.take(&token(1, 1)).await;

        assert!(turns.take(&token(1, 1)).await.is_none());
        assert!(turns.take(&token(2, 1)).await.is_some());
        assert!(turns.take(&token(1, 2)).await.is_some(), "another secret");
    }

    #[tokio::test]
    async fn what_nobody_waits_for_is_removed() {
        let turns = Turns::default();
        for name in 0..10_000 {
            turns.take(&token(name, 1)).await;
        }

        assert!(turns.0.lock().unwrap().len() <= TIDIED_FROM);
    }
}
