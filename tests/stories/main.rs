//! What users see, through the real binary.

mod asked;
mod compare;
mod control;
mod desk;
mod detached;
mod dev;
mod egress;
mod first_minutes;
mod gates;
mod held;
mod migrate;
mod once;
mod open_hooks;
mod recipes;
mod reconcile;
mod rehearse;
mod replay;
mod schedules;
mod steps;
mod tokens;
mod worker;
