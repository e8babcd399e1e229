//! Counts of what happened, and what waits for people.

use super::transfer::read;
use super::{Client, ClientError};
use crate::types::{HourFilter, HourTallies, Overview, Tallies, TallyFilter};

impl Client {
    /// Sums how much of what happened.
    pub async fn sum_tallies(&self, filter: &TallyFilter) -> Result<Tallies, ClientError> {
        read(self.get(&["v1", "tallies"]).query(filter)).await
    }

    /// Sums how much of what happened, by hour.
    pub async fn sum_hours(&self, filter: &HourFilter) -> Result<HourTallies, ClientError> {
        read(self.get(&["v1", "tallies", "hours"]).query(filter)).await
    }

    /// Counts what waits for people.
    pub async fn get_overview(&self) -> Result<Overview, ClientError> {
        read(self.get(&["v1", "overview"])).await
    }
}
