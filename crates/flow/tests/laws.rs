//! What holds for every expression and every flow.

#[path = "laws/digest.rs"]
mod digest;
#[path = "laws/expressions.rs"]
mod expressions;
#[path = "laws/files.rs"]
mod files;
