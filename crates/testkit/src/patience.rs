//! How long a test waits for what has to come.

use std::time::Duration;

/// The variable that shortens the wait, for tests that are meant to fail.
pub const VARIABLE: &str = "SEMEL_TEST_PATIENCE_SECS";

/// How long a test waits for what has to come. What comes ends the wait at once, so that a long one
/// costs nothing, and a machine that stands still for a minute fails no test.
pub fn patience() -> Duration {
    let said = std::env::var(VARIABLE).ok();
    let seconds = said.and_then(|text| text.parse().ok()).unwrap_or(100);
    Duration::from_secs(seconds)
}
