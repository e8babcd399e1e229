//! Rehearsals, played on a real PostgreSQL.

mod recipes;
mod stage;
