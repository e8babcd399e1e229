//! Where a cluster is: in `.semel/pg`, or elsewhere when its user cannot get there.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use sha2::{Digest as _, Sha256};

use super::error::ClusterError;
use crate::programs::Programs;

/// Where clusters go that cannot be in their folder. It outlives a restart of the machine.
const ELSEWHERE: &str = "/var/tmp";

/// The longest folder whose socket still has a name that every system takes.
const SOCKET_FOLDER_BYTES_MAX: usize = 85;

/// Only its user may enter.
const MODE: u32 = 0o700;

/// Where a cluster is.
#[derive(Clone, Debug)]
pub(super) struct Home {
    pub(super) path: PathBuf,
    reason: Option<&'static str>,
}

impl Home {
    /// Finds the place for the cluster of a folder.
    pub(super) fn find(folder: &Path, programs: &Programs) -> Result<Self, ClusterError> {
        let path = folder.join("pg");
        prepare_home(&path, programs)?;
        let reason = if path.as_os_str().len() > SOCKET_FOLDER_BYTES_MAX {
            Some("its path is too long for a socket")
        } else if is_reachable(&path, programs) {
            None
        } else {
            Some("PostgreSQL's user may not enter this directory")
        };
        if reason.is_none() {
            return Ok(Self { path, reason });
        }
        // An empty folder would only mislead.
        let _ = fs::remove_dir(&path);
        let path = elsewhere(folder);
        prepare_home(&path, programs)?;
        Ok(Self { path, reason })
    }

    /// What a person should know.
    pub(super) fn note(&self) -> Option<String> {
        let reason = self.reason?;
        Some(format!(
            "the database is in {}: {reason}",
            self.path.display()
        ))
    }
}

fn prepare_home(path: &Path, programs: &Programs) -> Result<(), ClusterError> {
    prepare(path, programs).map_err(|source| ClusterError::Home {
        path: path.to_owned(),
        source,
    })
}

fn elsewhere(folder: &Path) -> PathBuf {
    let digest = Sha256::digest(folder.as_os_str().as_encoded_bytes());
    Path::new(ELSEWHERE).join(format!("semel-{}", hex::encode(&digest[..6])))
}

/// Makes the folder, or makes sure that the one that is there is ours: others can write to the
/// place where it may lie.
fn prepare(path: &Path, programs: &Programs) -> io::Result<()> {
    match fs::create_dir(path) {
        Ok(()) => {
            fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
            programs.give(path)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let there = fs::symlink_metadata(path)?;
            // Root's own folder is one that an earlier start had no time to give away.
            let ours = there.uid() == programs.owner() || there.uid() == 0;
            if !there.is_dir() || !ours || there.mode() & 0o077 != 0 {
                let message = "it exists already and belongs to another user; remove it first";
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
            }
            programs.give(path)
        }
        Err(error) => Err(error),
    }
}

/// Whether the server's user can work there: a program is started in that directory as that user.
fn is_reachable(path: &Path, programs: &Programs) -> bool {
    programs
        .command("postgres")
        .arg("--version")
        .current_dir(path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_folder_gets_another_place() {
        assert_ne!(
            elsewhere(Path::new("/a/.semel")),
            elsewhere(Path::new("/b/.semel"))
        );
        assert!(elsewhere(Path::new("/a/.semel")).starts_with(ELSEWHERE));
    }

    #[test]
    fn a_folder_that_others_may_enter_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("pg");
        let programs = Programs::at(parent.path());
        prepare(&path, &programs).unwrap();
        prepare(&path, &programs).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();

        let error = prepare(&path, &programs).unwrap_err();

        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}
