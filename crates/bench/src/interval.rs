//! The middle of some values, and where it lies with nine parts in ten.
//!
//! By ranks alone: nothing is assumed of how the values are spread.

use serde::Serialize;

use crate::meters::median;

/// How much of the probability may lie outside on each side.
const TAIL: f64 = 0.05;

/// A median and its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Interval {
    /// The middle.
    pub(crate) median: f64,
    /// The lower end.
    pub(crate) low: f64,
    /// The upper end.
    pub(crate) high: f64,
}

impl Interval {
    /// The median of values with its 90 % interval; their whole range where they are too few.
    pub(crate) fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let outside = outside(sorted.len());
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        Self {
            median: median(&sorted),
            low: at(outside),
            high: at((sorted.len().max(1) - 1).saturating_sub(outside)),
        }
    }
}

/// How many of the smallest values may be left out: as many as a fair coin, thrown once for each
/// value, falls on one side at most with a probability of [`TAIL`].
fn outside(count: usize) -> usize {
    let mut probability = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let mut below = probability;
    for ranks in 0..count / 2 {
        probability *= (count - ranks) as f64 / (ranks + 1) as f64;
        below += probability;
        if below > TAIL {
            return ranks;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirty_values_leave_ten_out_on_each_side() {
        let values: Vec<f64> = (1..=30).map(f64::from).collect();

        let interval = Interval::of(&values);

        assert_eq!((interval.low, interval.high), (11.0, 20.0));
        assert_eq!(interval.median, 15.5);
    }

    #[test]
    fn few_values_have_their_range() {
        let interval = Interval::of(&[1.2, 0.9, 1.0]);

        assert_eq!(
            interval,
            Interval {
                median: 1.0,
                low: 0.9,
                high: 1.2
            }
        );
    }
}
