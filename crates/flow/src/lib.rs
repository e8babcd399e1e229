//! From an author's text to a checked release, or a diagnostic that points. Pure.
//!
//! Read in this order: an [`expr`] is evaluated over a scope, a [`template`] is a value with
//! expressions in it, a [`tree`] is a file as it was read. Each kind of step is a file in [`steps`]
//! and each trigger one in [`triggers`]; with the rest of the language they make the grammar that
//! files are read by. [`mod@check`] judges a file, and a [`release`] is what a flow means once it is
//! checked. A [`schedule`] computes the instants of a release.
//!
//! Modules use only those before them:
//!
//! ```text
//! nearest diagnostic yaml digest expr template schedule provider shapes input_schema grammar context
//! tree ▶ types ▶ steps ▶ triggers ▶ reconcile ▶ language ▶ read, format
//! read ▶ example
//! steps ▶ outline, release ▶ effect ▶ lower, inventory, chart ▶ check ▶ difference
//! release ▶ sample
//! ```

mod context;
mod digest;
mod effect;
mod example;
mod grammar;
mod input_schema;
mod language;
mod lower;
mod nearest;
mod outline;
mod read;
mod sample;
mod types;
mod yaml;

pub mod chart;
pub mod check;
pub mod diagnostic;
pub mod difference;
pub mod expr;
pub mod format;
pub mod inventory;
pub mod provider;
pub mod reconcile;
pub mod release;
pub mod schedule;
pub mod shapes;
pub mod steps;
pub mod template;
pub mod tree;
pub mod triggers;

pub use chart::{ChartForm, ChartList, ChartStep};
pub use check::{Checked, Examined, check, check_with, examine, load};
pub use context::{CheckContext, KnownConnection};
pub use diagnostic::{Code, Diagnostic, Severity};
pub use difference::{Difference, DifferenceKind, compare};
pub use digest::ReleaseDigest;
pub use example::{Example, examples};
pub use expr::{EvalError, EvalErrorKind, Expr, ExprError, Path, Scope};
pub use format::format;
pub use inventory::{Allowed, Inventory, InventoryEffect, InventoryStart};
pub use language::{schema, value_shapes};
pub use release::{Action, Flow, Step};
pub use sample::sample_payload;
pub use schedule::{Missed, Recurrence};
pub use steps::{ActionKind, EffectKind};
pub use template::{Template, TextTemplate};
pub use tree::Tree;
