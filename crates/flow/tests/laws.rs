//! What holds for every expression and every flow.

mod digest;
mod expressions;
mod files;
