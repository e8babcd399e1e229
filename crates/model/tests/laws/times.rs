//! Spans read back, and retries are bounded.

use proptest::prelude::*;
use semel_model::{RetryPolicy, Span};

proptest! {
    #[test]
    fn a_span_reads_back(millis in 0u64..315_360_000_000) {
        let span = Span::from_millis(millis);

        prop_assert_eq!(span.to_string().parse::<Span>(), Ok(span));
    }

    #[test]
    fn a_delay_is_within_its_policy(
        attempts in 1u32..20,
        first in 1u64..10_000,
        most in 1u64..600_000,
        within in 1u64..10_000_000,
        attempt in 1u32..30,
        spent in 0u64..10_000_000,
        chance in 0.0f64..1.0,
    ) {
        let policy = RetryPolicy {
            attempts,
            delay: Span::from_millis(first),
            max_delay: Span::from_millis(most),
            within: Span::from_millis(within),
        };

        match policy.delay(attempt, Span::from_millis(spent), chance, None) {
            Some(delay) => {
                prop_assert!(attempt < attempts);
                prop_assert!(delay.as_millis() <= most);
                prop_assert!(spent + delay.as_millis() <= within);
            }
            None => prop_assert!(attempt >= attempts || spent >= within || spent + most >= within),
        }
    }

    #[test]
    fn the_ceiling_of_the_delay_doubles_until_its_most(
        first in 1u64..10_000,
        doublings in 0u32..12,
        attempt in 1u32..20,
    ) {
        let most = first << doublings;
        let policy = RetryPolicy {
            attempts: 100,
            delay: Span::from_millis(first),
            max_delay: Span::from_millis(most),
            within: Span::from_secs(315_360_000),
        };

        let ceiling = policy.delay(attempt, Span::default(), 1.0, None);

        let expected = (first << (attempt - 1)).min(most);
        prop_assert_eq!(ceiling, Some(Span::from_millis(expected)));
    }

    #[test]
    fn the_delay_is_spread_over_the_whole_range_below_its_ceiling(
        first in 100u64..10_000,
        attempt in 1u32..10,
        chance in 0.0f64..1.0,
    ) {
        let policy = RetryPolicy {
            attempts: 100,
            delay: Span::from_millis(first),
            max_delay: Span::from_secs(86_400),
            within: Span::from_secs(315_360_000),
        };
        let delay = |chance| policy.delay(attempt, Span::default(), chance, None);

        let ceiling = (first << (attempt - 1)).min(86_400_000) as f64;

        let drawn = delay(chance).map(|span| span.as_millis() as f64);
        prop_assert!(drawn.is_some_and(|drawn| (drawn - ceiling * chance).abs() <= 1.0), "{drawn:?}");
        prop_assert_eq!(delay(0.0), Some(Span::default()), "one caller retries at once");
    }

    #[test]
    fn what_the_destination_asks_for_is_honoured(asked in 0u64..3600) {
        let asked = Span::from_secs(asked);

        let delay = RetryPolicy::default().delay(1, Span::default(), 0.5, Some(asked));

        prop_assert!(delay.is_some_and(|delay| delay >= asked));
    }
}

#[test]
fn mistakes_are_not_spans() {
    for text in [
        "",
        "5",
        "m",
        "1h1h",
        "1m1h",
        "-1s",
        "1.5s",
        "11y",
        "999999999d",
    ] {
        assert!(text.parse::<Span>().is_err(), "{text}");
    }
}
