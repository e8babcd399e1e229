//! From an author's text to a checked release, or a diagnostic that points.

mod nearest;

pub mod expr;

pub use expr::{EvalError, Expr, ExprError, Fault, Path, Scope};
