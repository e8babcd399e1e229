//! The test world: databases, peers, faults, time. Never shipped.
