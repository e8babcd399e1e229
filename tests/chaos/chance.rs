//! Chance with a seed: a storm prints its seed and replays from it.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// Where the seed is taken from, when a storm is to be replayed.
const VARIABLE: &str = "SEMEL_STORM_SEED";

/// Random numbers (SplitMix64).
pub(crate) struct Chance {
    state: u64,
}

impl Chance {
    /// Takes the seed of the environment or a new one, and prints it.
    pub(crate) fn new(storm: &str) -> Self {
        let given = std::env::var(VARIABLE)
            .ok()
            .and_then(|text| text.parse().ok());
        let seed = given.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        println!("{storm}: {VARIABLE}={seed}");
        Self { state: seed }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.below(index + 1));
        }
    }
}
