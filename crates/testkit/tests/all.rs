//! The tests of the test world, in one binary.

mod clusters;
mod peers;
mod programs;
mod proxies;
