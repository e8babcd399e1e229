//! The process's own limits: no core dumps, so that secrets in its memory do not end up on a disk, files that other users
//! of the machine cannot read, and as many connections as leave descriptors for everything else.

use std::io;

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};
use semel_server::ServerOptions;

/// How many descriptors are left to the database, to destinations and to files.
const KEPT_DESCRIPTORS: u64 = 512;

/// How many connections are admitted at least, however few descriptors there are.
const CONNECTIONS_MIN: usize = 64;

/// One address has at most this part of the connections, unless the operator says otherwise.
const SOURCE_PART: usize = 4;

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

/// Makes every file and folder that this process creates from now on readable by its own user alone:
/// payloads stand in resources, archived runs and the files of `semel dev`.
pub(crate) fn keep_files_private() {
    umask(Mode::RWXG | Mode::RWXO);
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

/// Raises the soft limit of descriptors to the hard one. Returns the limit; none where there is none.
pub(crate) fn raise_descriptors() -> Option<u64> {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: before.maximum,
        maximum: before.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => before.maximum,
        Err(error) => {
            let error = io::Error::from(error);
            tracing::warn!(%error, "the limit of open files could not be raised");
            before.current
        }
    }
}

/// Admits only as many connections as leave descriptors for everything else: a connection that nobody
/// authenticated must not keep the database or a destination from being reached.
pub(crate) fn fit_connections(limits: &mut ServerOptions, descriptors: Option<u64>) {
    let Some(descriptors) = descriptors else {
        return;
    };
    let room = usize::try_from(descriptors.saturating_sub(KEPT_DESCRIPTORS));
    let room = room.unwrap_or(usize::MAX).max(CONNECTIONS_MIN);
    if room >= limits.connections_max {
        return;
    }
    tracing::warn!(
        descriptors,
        connections = room,
        "few open files are allowed: fewer connections are admitted (LimitNOFILE, ulimit -n)"
    );
    limits.connections_max = room;
    limits.connections_per_source = limits.connections_per_source.min(room / SOURCE_PART);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_of_open_files_is_raised_to_the_hard_one() {
        let limit = raise_descriptors();

        let now = getrlimit(Resource::Nofile);
        assert_eq!((limit, now.current), (now.maximum, now.maximum));
    }

    #[test]
    fn connections_leave_descriptors_for_the_database_and_destinations() {
        let fit = |descriptors| {
            let mut limits = ServerOptions::default();
            fit_connections(&mut limits, descriptors);
            (limits.connections_max, limits.connections_per_source)
        };

        assert_eq!(fit(None), (8_192, 2_048));
        assert_eq!(fit(Some(65_536)), (8_192, 2_048));
        assert_eq!(fit(Some(8_192 + 512)), (8_192, 2_048));
        assert_eq!(fit(Some(1_024)), (512, 128));
        assert_eq!(fit(Some(100)), (64, 16), "some are admitted in any case");
    }

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
