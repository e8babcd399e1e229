//! Moving runs forward: intake, leases, turns, waits, recovery, retention.
