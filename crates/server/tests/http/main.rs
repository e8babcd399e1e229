//! What callers see, over real HTTP, with the real engine on a real database.

mod access;
mod acts;
mod approvals;
mod authentic;
mod callbacks;
mod commands;
mod connections;
mod doubts;
mod edge;
mod hooks;
mod key_audit;
mod limits;
mod outages;
mod records;
mod replays;
mod resources;
mod secrets;
mod signing;
mod starts;
mod subscriptions;
mod tasks;
mod world;
