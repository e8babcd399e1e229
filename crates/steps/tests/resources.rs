//! Resources: what is kept is found again, once, whole, by its own namespace, and costs no memory.

mod crash;
mod memory;
mod resource_store;
mod world;
