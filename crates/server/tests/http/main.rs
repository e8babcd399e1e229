//! What callers see, over real HTTP, with the real engine on a real database.

mod access;
mod callbacks;
mod commands;
mod connections;
mod doubts;
mod hooks;
mod key_audit;
mod limits;
mod outages;
mod secrets;
mod starts;
mod world;
