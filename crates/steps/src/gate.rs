//! The send gate: the last look at the lease before the first byte leaves.

/// Whether this worker may still send.
///
/// A worker that was paused for longer than its lease must not wake up and send what another has
/// taken over. The gate is asked before a request is handed to the network, and again once a
/// connection stands. It is a check before an act: what remains is a pause between the check and
/// the first byte, which the quarantine of doubts covers.
pub trait SendGate: Send + Sync + 'static {
    /// True while the lease certainly holds.
    fn is_open(&self) -> bool;
}
