//! Which version this is, and which build of it.

/// The version alone.
pub(crate) const NUMBER: &str = env!("CARGO_PKG_VERSION");

/// The commit, its date and the profile; `build.rs` finds them out.
pub(crate) const BUILD: &str = env!("SEMEL_BUILD");

/// Both, as people read them: `0.1.0 (638148e0c, 2026-11-16, dist)`.
pub(crate) const FULL: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("SEMEL_BUILD"), ")");
