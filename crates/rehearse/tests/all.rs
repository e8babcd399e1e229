//! Rehearsals, played on a real PostgreSQL.

mod isolation;
mod recipes;
mod stage;
mod wrong;
