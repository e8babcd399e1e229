//! From an author's text to a checked release, or a diagnostic that points. Pure.
//!
//! Read in this order: the grammar says which fields there are, an [`expr`] is worked out over
//! a scope, a [`template`] is a value with expressions in it, a [`tree`] is a file as it was read,
//! [`mod@check`] judges it, and a [`release`] is what a flow means once it is checked. A [`schedule`]
//! tells the instants that a release names.

mod effect;
mod grammar;
mod lower;
mod nearest;
mod read;
mod types;
mod yaml;

pub mod check;
pub mod diagnostic;
pub mod expr;
pub mod format;
pub mod inventory;
pub mod provider;
pub mod release;
pub mod schedule;
pub mod shapes;
pub mod template;
pub mod tree;

/// The JSON Schema of a flow file, for editors (draft 2020-12).
#[must_use]
pub fn schema() -> serde_json::Value {
    grammar::schema::schema()
}

pub use check::{Allowed, Checked, Examined, check, check_with, examine, load};
pub use diagnostic::{Code, Diagnostic, Severity};
pub use effect::{Connection, Does, Facts};
pub use expr::{EvalError, Expr, ExprError, Fault, Path, Scope};
pub use format::format;
pub use inventory::Inventory;
pub use release::{Action, Digest, Flow, Step};
pub use schedule::{Missed, Rhythm};
pub use template::{Template, TextTemplate};
pub use tree::Tree;
