//! Reading the database because of a cache miss.
//!
//! What this process knows of control data may be half a second old. Before it says that there is
//! no such hook, flow or connection, it looks once more; a release that another server made live a
//! moment ago is found. Misses that come together share a look, and looks keep a distance, so that
//! a storm of unknown hooks costs a few small reads a second, whatever its size.

use std::time::Duration;

use semel_store::ReadError;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The least time between the beginnings of two looks.
const DISTANCE: Duration = Duration::from_millis(50);

/// How long a miss waits for its look.
const PATIENCE: Duration = Duration::from_secs(2);

/// When the database was last looked at because of a miss.
#[derive(Default)]
pub(crate) struct Lookups {
    began: Mutex<Option<Instant>>,
}

/// The database did not answer a look in time.
#[derive(Debug, thiserror::Error)]
#[error("the database did not answer: {0}")]
pub(crate) struct LookError(String);

impl Lookups {
    /// Returns once a look that began after this call has ended well: this caller's or another's.
    pub(crate) async fn look<F>(&self, look: impl FnOnce() -> F) -> Result<(), LookError>
    where
        F: Future<Output = Result<(), ReadError>>,
    {
        match tokio::time::timeout(PATIENCE, self.look_in_turn(look)).await {
            Ok(looked) => looked.map_err(|error| LookError(error.to_string())),
            Err(_) => Err(LookError(format!("nothing within {PATIENCE:?}"))),
        }
    }

    async fn look_in_turn<F>(&self, look: impl FnOnce() -> F) -> Result<(), ReadError>
    where
        F: Future<Output = Result<(), ReadError>>,
    {
        let asked = Instant::now();
        let mut last = self.began.lock().await;
        if let Some(began) = *last {
            if began > asked {
                return Ok(());
            }
            tokio::time::sleep_until(began + DISTANCE).await;
        }
        let begins = Instant::now();
        look().await?;
        *last = Some(begins);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use semel_testkit::pace;

    use super::*;

    #[tokio::test]
    async fn a_storm_of_misses_shares_its_looks() {
        let looks = Arc::new(Lookups::default());
        let count = Arc::new(AtomicU32::new(0));
        let begun = Instant::now();
        let mut storm = tokio::task::JoinSet::new();
        for miss in 0..2_000_u64 {
            let (looks, count) = (looks.clone(), count.clone());
            storm.spawn(async move {
                pace(Duration::from_micros(miss * 100)).await;
                let count = &count;
                let look = || async move {
                    count.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                };
                looks.look(look).await
            });
        }
        while let Some(looked) = storm.join_next().await {
            // Where the machine stood still, the patience of a miss may be over.
            if let Err(error) = looked.unwrap() {
                assert!(error.to_string().contains("nothing within"), "{error}");
            }
        }

        let (looked, took) = (count.load(Ordering::Relaxed), begun.elapsed());
        assert!((1..2_000).contains(&looked), "{looked} looks");
        assert!(
            DISTANCE * (looked - 1) <= took,
            "{looked} looks in {took:?} keep no distance"
        );
    }

    #[tokio::test]
    async fn a_look_that_began_before_the_miss_does_not_count() {
        let looks = Lookups::default();
        let count = AtomicU32::new(0);
        let look = || async {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };

        looks.look(look).await.unwrap();
        looks.look(look).await.unwrap();

        assert_eq!(count.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn an_unavailable_database_is_no_answer() {
        let looks = Lookups::default();

        let looked = looks.look(std::future::pending).await;

        assert!(looked.is_err());
    }
}
