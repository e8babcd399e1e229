//! How often attempts at the steps of a flow had which outcome.

use std::collections::HashMap;

use semel_api::types::TallyCount;

/// Counts by step.
#[derive(Default)]
pub(crate) struct StepCounts(HashMap<String, StepCount>);

/// The counts of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepCount {
    done: i64,
    failed: i64,
    doubted: i64,
}

impl StepCounts {
    /// The counts that tallies by step say.
    pub(crate) fn read(tallies: &[TallyCount]) -> Self {
        let mut counts: HashMap<String, StepCount> = HashMap::new();
        for tally in tallies {
            let Some(step) = &tally.step else {
                continue;
            };
            let count = counts.entry(step.clone()).or_default();
            match tally.what.as_str() {
                "effect_done" => count.done += tally.count,
                "effect_failed" => count.failed += tally.count,
                "effect_doubted" => count.doubted += tally.count,
                _ => {}
            }
        }
        Self(counts)
    }

    /// Whether nothing was counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those of a step: zero where nothing was counted.
    pub(crate) fn of(&self, step: &str) -> StepCount {
        self.0.get(step).copied().unwrap_or_default()
    }
}

impl StepCount {
    /// The counts with the signs of their outcomes; nothing where all are zero.
    pub(crate) fn short(self) -> Option<String> {
        let parts = self.parts().map(|(count, sign, _)| {
            let count = rounded(count);
            format!("{count} {sign}")
        });
        let parts: Vec<String> = parts.collect();
        (!parts.is_empty()).then(|| parts.join(" "))
    }

    /// The counts in words; nothing where all are zero.
    pub(crate) fn words(self) -> Option<String> {
        let parts = self
            .parts()
            .map(|(count, _, word)| format!("{count} {word}"));
        let parts: Vec<String> = parts.collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// What is said of a step, with its counts.
    pub(super) fn told(self, told: String) -> String {
        match self.words() {
            Some(words) => format!("{told}; in 24 h {words}"),
            None => told,
        }
    }

    /// How many characters of the step's name they take the place of.
    pub(super) fn room(self) -> usize {
        let taken = self.short().map_or(0, |short| short.chars().count());
        taken.min(super::NAME_CHARS_MAX - 6)
    }

    fn parts(self) -> impl Iterator<Item = (i64, &'static str, &'static str)> {
        let all = [
            (self.done, "●", "done"),
            (self.failed, "■", "failed"),
            (self.doubted, "◆", "in doubt"),
        ];
        all.into_iter().filter(|(count, ..)| *count > 0)
    }
}

/// A count that fits: 950, 12k, 3M.
fn rounded(count: i64) -> String {
    match count {
        ..=9_999 => count.to_string(),
        10_000..=9_999_999 => format!("{}k", count / 1_000),
        10_000_000.. => format!("{}M", count / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(step: &str, what: &str, count: i64) -> TallyCount {
        TallyCount {
            flow: "orders".to_owned(),
            step: Some(step.to_owned()),
            what: what.to_owned(),
            count,
        }
    }

    #[test]
    fn counts_are_shown_with_their_signs_and_told_in_words() {
        let counts = StepCounts::read(&[
            tally("pay", "effect_done", 12_345),
            tally("pay", "effect_doubted", 2),
            tally("mail", "effect_failed", 1),
        ]);

        let pay = counts.of("pay");
        assert_eq!(pay.short().as_deref(), Some("12k ● 2 ◆"));
        assert_eq!(pay.words().as_deref(), Some("12345 done, 2 in doubt"));
        assert_eq!(counts.of("mail").short().as_deref(), Some("1 ■"));
        assert_eq!(counts.of("other"), StepCount::default());
        assert_eq!(counts.of("other").short(), None);
    }
}
