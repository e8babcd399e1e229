//! Attempts whose time runs out, though not before they got far enough.

use anyhow::Result;
use semel_model::{Outcome, Span};
use semel_testkit::until;

/// Makes attempts, each with a second more than the one before, until one gets far enough: how much time
/// that takes is the machine's affair.
pub(crate) async fn with_enough_time(
    mut attempt: impl AsyncFnMut(Span) -> Result<Outcome>,
    is_enough: impl FnMut(&Outcome) -> bool,
) -> Result<Outcome> {
    let mut secs = 0;
    let look = async || -> Result<Outcome> {
        secs += 1;
        attempt(Span::from_secs(secs)).await
    };
    until("an attempt that gets far enough", look, is_enough).await
}

/// Whether an attempt was given up after its request was sent.
pub(crate) fn is_in_doubt(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::InDoubt(_))
}
