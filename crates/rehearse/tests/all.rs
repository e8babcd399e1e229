//! Rehearsals, played on a real PostgreSQL.

mod engine_bugs;
mod isolation;
mod recipes;
mod stage;
mod undoing;
mod wrong;
