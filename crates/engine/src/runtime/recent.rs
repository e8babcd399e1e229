//! Claims that this process saw lately: a guess at which deliveries are repeats.
//!
//! A wrong guess costs a look-up and nothing else. The claim itself decides.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use semel_model::ClaimId;

/// How many claims one of the two generations holds.
const GENERATION: usize = 32_768;

/// Claims seen lately, in two generations: when the younger is full, the older is dropped.
#[derive(Default)]
pub(crate) struct Recent {
    generations: Mutex<(HashSet<ClaimId>, HashSet<ClaimId>)>,
}

impl Recent {
    /// Whether a claim was seen lately.
    pub(crate) fn has(&self, claim: ClaimId) -> bool {
        let generations = self.generations.lock();
        let (young, old) = &*generations.unwrap_or_else(PoisonError::into_inner);
        young.contains(&claim) || old.contains(&claim)
    }

    /// Notes a claim that was seen.
    pub(crate) fn note(&self, claim: ClaimId) {
        let generations = self.generations.lock();
        let (young, old) = &mut *generations.unwrap_or_else(PoisonError::into_inner);
        if young.len() >= GENERATION {
            *old = std::mem::take(young);
        }
        young.insert(claim);
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn the_oldest_are_forgotten() {
        let recent = Recent::default();
        let claim = |n: usize| ClaimId::from_uuid(Uuid::from_u128(n as u128));
        for n in 0..GENERATION * 2 + 1 {
            recent.note(claim(n));
        }
        assert!(!recent.has(claim(0)));
        assert!(recent.has(claim(GENERATION * 2)));
    }
}
