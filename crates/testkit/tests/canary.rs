//! A test that does what no test may: it judges the machine.

use std::time::{Duration, Instant};

/// Green on a machine that nothing disturbs, red under `.ci/disturb`: it shows that the disturbance reaches tests.
#[test]
#[ignore = "judges seconds; .ci/long stress plays it to see it fail"]
fn a_test_that_judges_seconds() {
    for _ in 0..300 {
        let begun = Instant::now();

        std::thread::sleep(Duration::from_millis(100));

        assert!(begun.elapsed() < Duration::from_millis(400));
    }
}
