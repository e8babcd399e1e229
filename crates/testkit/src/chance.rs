//! Random choices of a test, all from one seed, so that a red test can be repeated.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::OnceLock;

/// The variable that repeats a test with the choices of an earlier run.
pub const VARIABLE: &str = "SEMEL_TEST_SEED";

/// The seed of this process: from the variable, or by chance. It is printed when first asked for.
pub fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| {
        let given = std::env::var(VARIABLE)
            .ok()
            .and_then(|text| text.parse().ok());
        let seed = given.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        eprintln!("{VARIABLE}={seed}");
        seed
    })
}

/// Random numbers (SplitMix64): the same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// Numbers that follow from the seed of this process and a name, which keeps two storms of one
    /// test from making the same choices.
    pub fn new(storm: &str) -> Self {
        let named = storm.bytes().fold(seed(), |state, byte| {
            (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        });
        Self { state: named }
    }

    /// The next number, any of 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next_u64() % bound as u64) as usize
    }

    /// Puts items into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.below(index + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_of_one_name_makes_the_same_choices_again() {
        let choices = |storm| {
            let mut chance = Chance::new(storm);
            [chance.below(1 << 30), chance.below(1 << 30)]
        };

        assert_eq!(choices("kills"), choices("kills"));
        assert_ne!(choices("kills"), choices("clicks"));
    }
}
