//! The tests of the flow language, in one binary: each file of this folder is a module of it.

mod bounds;
mod corpus;
mod effort;
mod format;
mod fuzz;
mod language;
mod laws;
mod mistakes;
mod mutations;
mod pages;
mod providers;
mod recipes;
mod reconcile;
mod schedules;
