//! What keeps secrets in this process's memory from ending up on a disk.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Switches core dumps off for a process that holds secrets: none is written where it crashes, and
/// on Linux no other process of the same user may look into its memory. Commands that it starts
/// may ask for their own again.
pub(crate) fn forbid_core_dumps() {
    let before = getrlimit(Resource::Core);
    let none = Rlimit {
        current: Some(0),
        maximum: before.maximum,
    };
    let limited = setrlimit(Resource::Core, none).map_err(io::Error::from);
    for error in [limited.err(), close_memory().err()].into_iter().flatten() {
        tracing::warn!(%error, "core dumps could not be switched off");
    }
}

#[cfg(target_os = "linux")]
fn close_memory() -> io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

#[cfg(not(target_os = "linux"))]
fn close_memory() -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_core_is_written() {
        forbid_core_dumps();

        assert_eq!(getrlimit(Resource::Core).current, Some(0));
        #[cfg(target_os = "linux")]
        assert_eq!(
            rustix::process::dumpable_behavior().unwrap(),
            rustix::process::DumpableBehavior::NotDumpable
        );
    }
}
