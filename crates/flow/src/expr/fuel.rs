//! The budget of one evaluation: steps and bytes, paid before they are used.

use super::error::EvalErrorKind;
use super::limits::{FUEL_MAX, MADE_BYTES_MAX};

/// What is left of an evaluation's allowance.
#[derive(Debug)]
pub(crate) struct Fuel {
    steps: u32,
    bytes: u32,
}

impl Fuel {
    pub(crate) fn full() -> Self {
        Self {
            steps: FUEL_MAX,
            bytes: MADE_BYTES_MAX,
        }
    }

    /// Pays for one step.
    pub(crate) fn step(&mut self) -> Result<(), EvalErrorKind> {
        self.burn(1)
    }

    /// Pays for work that grows with what it looks at: `size / per` steps, and one.
    pub(crate) fn burn_for(&mut self, size: usize, per: usize) -> Result<(), EvalErrorKind> {
        self.burn(size / per + 1)
    }

    pub(crate) fn burn(&mut self, steps: usize) -> Result<(), EvalErrorKind> {
        let left = u32::try_from(steps)
            .ok()
            .and_then(|steps| self.steps.checked_sub(steps));
        self.steps = left.ok_or(EvalErrorKind::Limit("steps"))?;
        Ok(())
    }

    /// Pays for bytes that are about to be made.
    pub(crate) fn make(&mut self, bytes: usize) -> Result<(), EvalErrorKind> {
        let left = u32::try_from(bytes)
            .ok()
            .and_then(|bytes| self.bytes.checked_sub(bytes));
        self.bytes = left.ok_or(EvalErrorKind::Limit("memory"))?;
        Ok(())
    }
}
