//! From an author's text to a checked release, or a diagnostic that points. Pure.
//!
//! Read in this order: an [`expr`] is worked out over a scope, a [`template`] is a value with
//! expressions in it, a [`release`] is what a flow means once it is checked.

mod nearest;
mod read;
mod yaml;

pub mod check;
pub mod diagnostic;
pub mod expr;
pub mod provider;
pub mod release;
pub mod template;

pub use check::{Checked, check};
pub use diagnostic::{Code, Diagnostic, Severity};
pub use expr::{EvalError, Expr, ExprError, Fault, Path, Scope};
pub use release::{Action, Digest, Flow, Step};
pub use template::{Template, TextTemplate};
