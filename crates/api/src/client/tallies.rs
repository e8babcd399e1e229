//! Counts of what happened, and what waits for people.

use super::transfer::read;
use super::{Client, ClientError};
use crate::types::{Overview, SeriesFilter, Tallies, TallyFilter, TallySeries};

impl Client {
    /// Sums how much of what happened.
    pub async fn sum_tallies(&self, filter: &TallyFilter) -> Result<Tallies, ClientError> {
        read(self.get(&["v1", "tallies"]).query(filter)).await
    }

    /// Sums how much of what happened, one interval after the other.
    pub async fn sum_series(&self, filter: &SeriesFilter) -> Result<TallySeries, ClientError> {
        read(self.get(&["v1", "tallies", "series"]).query(filter)).await
    }

    /// Counts what waits for people.
    pub async fn get_overview(&self) -> Result<Overview, ClientError> {
        read(self.get(&["v1", "overview"])).await
    }
}
