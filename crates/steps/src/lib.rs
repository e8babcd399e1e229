//! The outside world: one executor per kind of step.
