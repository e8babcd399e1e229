//! Two sides in turns: slices A B B A, of which two neighbours make a pair.
//!
//! A machine varies by a tenth from one minute to the next, and little from one slice to its neighbour. The
//! order changes from pair to pair, so that whatever grows does not always fall on the same side.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use crate::interval::Interval;
use crate::load::{self, Keys, Poster, Target};
use crate::meters::{Meters, median};
use crate::report::Measured;

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PairSide {
    A,
    B,
}

/// Measures so many pairs, or one more. `tidy` comes before each.
pub(crate) async fn alternate<T>(
    pairs: usize,
    mut tidy: impl AsyncFnMut() -> Result<()>,
    mut measure: impl AsyncFnMut(PairSide) -> Result<T>,
) -> Result<Vec<(T, T)>> {
    let mut measured = Vec::with_capacity(pairs + 1);
    while measured.len() < pairs {
        tidy().await?;
        let a = measure(PairSide::A).await?;
        measured.push((a, measure(PairSide::B).await?));
        tidy().await?;
        let b = measure(PairSide::B).await?;
        measured.push((measure(PairSide::A).await?, b));
    }
    Ok(measured)
}

/// How many times A's value is B's, with its interval.
pub(crate) fn ratio<T>(measured: &[(T, T)], of: impl Fn(&T) -> f64) -> Interval {
    let ratios = measured.iter().map(|(a, b)| of(b) / of(a));
    Interval::of(&ratios.collect::<Vec<_>>())
}

/// How many per second one side had, in the middle of its slices.
pub(crate) fn rate<'a>(slices: impl Iterator<Item = &'a Measured>) -> f64 {
    median(&slices.map(|side| side.slice.rate()).collect::<Vec<_>>())
}

/// One slice: so many callers of a server, and what they cost.
pub(crate) async fn slice(
    meters: &Meters,
    target: &Arc<Target>,
    callers: (usize, Keys),
    tag: &str,
    lasts: Duration,
) -> Result<Measured> {
    let (count, keys) = callers;
    let crowd = Poster::crowd(target, count, keys, tag).await?;
    let before = meters.read(Some(target.process)).await?;
    let slice = load::run(crowd, lasts).await?;
    let used = meters.read(Some(target.process)).await?.since(&before);
    Ok(Measured { slice, used })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn neighbours_are_compared_and_neither_side_is_always_first() {
        let mut order = Vec::new();
        let mut number = 0.0;

        let measured = alternate(
            2,
            async || Ok(()),
            async |side| {
                order.push(side);
                number += 1.0;
                Ok((side, number))
            },
        )
        .await
        .unwrap();

        use PairSide::{A, B};
        assert_eq!(order, [A, B, B, A]);
        assert_eq!(
            measured,
            [((A, 1.0), (B, 2.0)), ((A, 4.0), (B, 3.0))],
            "A stands before B in each pair"
        );
        assert_eq!(ratio(&measured, |(_, number)| *number).median, 1.375);
    }
}
