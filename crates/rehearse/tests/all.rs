//! Rehearsals, played on a real PostgreSQL.

mod ends;
mod engine_bugs;
mod isolation;
mod persist;
mod recipes;
mod stage;
mod undoing;
mod wrong;
