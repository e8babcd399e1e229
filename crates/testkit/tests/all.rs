//! The tests of the test world, in one binary.

mod canary;
mod clusters;
mod orders;
mod peers;
mod programs;
mod proxies;
