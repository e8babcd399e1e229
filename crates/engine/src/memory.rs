//! Memory: how much there is, and how much each part of the process may use.
//!
//! Input is bounded by bytes as well as by number. A [`Budget`] is a share of the memory that the
//! process may use; code that reads, parses or holds something takes as much from it as that costs,
//! and returns it when it drops the data.

use std::sync::Arc;
use std::time::Duration;

pub use semel_model::json::{parsed_bytes, value_bytes};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The unit of a budget, in bytes.
const UNIT: usize = 1024;

/// The least that a budget has, whatever the machine is: one delivery of the largest size must fit.
const BUDGET_BYTES_MIN: usize = 64 << 20;

/// The most that a budget has by default, however large the machine is.
const BUDGET_BYTES_MAX: usize = 1 << 30;

/// The least and the most that what destinations answered may take while it is read.
const ANSWER_BYTES: std::ops::RangeInclusive<usize> = 32 << 20..=512 << 20;

/// A share of the memory. Clones share one.
#[derive(Clone, Debug)]
pub struct Budget {
    units: Arc<Semaphore>,
    most: u32,
}

/// A part of a budget that is in use. Dropping it returns it.
#[derive(Debug)]
pub struct Portion {
    permit: OwnedSemaphorePermit,
}

impl Budget {
    /// A budget of this many bytes.
    pub fn of_bytes(bytes: usize) -> Self {
        let most = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        Self {
            units: Arc::new(Semaphore::new(most as usize)),
            most,
        }
    }

    /// A quarter of the memory that the process may use, within sensible bounds.
    pub fn quarter_of(memory_bytes: u64) -> Self {
        let quarter = usize::try_from(memory_bytes / 4).unwrap_or(usize::MAX);
        Self::of_bytes(quarter.clamp(BUDGET_BYTES_MIN, BUDGET_BYTES_MAX))
    }

    /// Takes this many bytes, once they are free. A request for more than the budget takes all of
    /// it.
    pub async fn take(&self, bytes: usize) -> Option<Portion> {
        let units = self.units.clone().acquire_many_owned(self.units(bytes));
        units.await.ok().map(|permit| Portion { permit })
    }

    /// Takes this many bytes, if they are free now.
    pub fn try_take(&self, bytes: usize) -> Option<Portion> {
        let units = self.units.clone();
        let permit = units.try_acquire_many_owned(self.units(bytes)).ok()?;
        Some(Portion { permit })
    }

    /// Takes this many bytes once they are free, or nothing after `patience`.
    pub async fn take_within(&self, bytes: usize, patience: Duration) -> Option<Portion> {
        // Mostly there is room: no timer then.
        match self.try_take(bytes) {
            Some(portion) => Some(portion),
            None => tokio::time::timeout(patience, self.take(bytes))
                .await
                .ok()
                .flatten(),
        }
    }

    /// Whether nothing of it is in use.
    pub fn is_whole(&self) -> bool {
        self.units.available_permits() >= self.most as usize
    }

    /// All that there is, in bytes.
    pub fn total(&self) -> usize {
        self.most as usize * UNIT
    }

    /// The even share of each of so many, in bytes.
    pub fn even_share(&self, count: usize) -> usize {
        self.total() / count.max(1)
    }

    fn units(&self, bytes: usize) -> u32 {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        units.min(self.most)
    }
}

impl Portion {
    /// Gives back all but so many bytes.
    pub fn shrink_to(&mut self, bytes: usize) {
        let spare = self
            .permit
            .num_permits()
            .saturating_sub(bytes.div_ceil(UNIT));
        drop(self.permit.split(spare));
    }

    /// Joins another portion of the same budget to this one.
    pub fn join(&mut self, other: Self) {
        self.permit.merge(other.permit);
    }
}

/// So many bytes, in whole units of a budget.
pub(crate) fn whole_units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT).saturating_mul(UNIT)
}

/// How much what destinations answered may take while it is read: an eighth of the memory, within sensible bounds.
pub fn answer_bytes_of(memory_bytes: u64) -> usize {
    let eighth = usize::try_from(memory_bytes / 8).unwrap_or(usize::MAX);
    eighth.clamp(*ANSWER_BYTES.start(), *ANSWER_BYTES.end())
}

/// How much memory this process may use: the limit of its cgroup, or what the machine has.
pub fn limit_bytes() -> u64 {
    let cgroup = [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ]
    .into_iter()
    .find_map(|file| {
        std::fs::read_to_string(file)
            .ok()?
            .trim()
            .parse::<u64>()
            .ok()
    });
    let machine = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| read_total(&text));
    let limits = [cgroup, machine].into_iter().flatten();
    limits.min().unwrap_or(1 << 30)
}

fn read_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_taken_is_missing_until_it_is_given_back() {
        let budget = Budget::of_bytes(10 * UNIT);
        let mut most = budget.try_take(9 * UNIT).unwrap();

        let too_much = budget.try_take(2 * UNIT);
        most.join(budget.take(UNIT).await.unwrap());
        let nothing = budget.take_within(1, Duration::from_millis(1)).await;
        most.shrink_to(4 * UNIT);
        let spare = budget.try_take(6 * UNIT);
        most.shrink_to(9 * UNIT);
        let beyond = budget.try_take(1);
        drop((most, spare));
        let all = budget.try_take(usize::MAX);

        assert!(too_much.is_none() && nothing.is_none());
        assert!(beyond.is_none(), "what was given back is not taken again");
        assert!(all.is_some(), "what is more than all takes all");
    }

    #[test]
    fn the_memory_of_a_machine_is_read() {
        assert_eq!(
            read_total("MemTotal:       1024 kB\nMemFree: 1 kB\n"),
            Some(1 << 20)
        );
        assert!(limit_bytes() > 0);
    }
}
