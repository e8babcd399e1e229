//! What survives crashes.

mod audit;
mod callbacks;
mod canaries;
mod chance;
mod crash;
mod crowd;
mod db_fire;
mod flood;
mod ground;
mod harness;
mod lies;
mod limits;
mod long_list;
mod outside;
mod people;
mod races;
mod servers;
mod sleepers;
mod three;
mod ways;
mod workers;
