//! What survives crashes.

mod audit;
mod callbacks;
mod canaries;
mod chance;
mod crash;
mod crowd;
mod flood;
mod ground;
mod harness;
mod races;
mod servers;
mod three;
