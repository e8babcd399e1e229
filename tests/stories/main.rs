//! What users see, through the real binary.

mod alerts;
mod api;
mod asked;
mod compare;
mod console;
mod control;
mod desk;
mod detached;
mod dev;
mod egress;
mod first_minutes;
mod gates;
mod held;
mod looking_into;
mod migrate;
mod once;
mod open_hooks;
mod pause;
mod recipes;
mod reconcile;
mod rehearse;
mod replay;
mod schedules;
mod steps;
mod tokens;
mod worker;
