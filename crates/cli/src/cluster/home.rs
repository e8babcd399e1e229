//! Where a cluster lies: in `.semel/pg`, or elsewhere when its user could not get there.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use sha2::{Digest as _, Sha256};

use super::account::{self, Account};
use crate::answer::Problem;

/// Where clusters go that cannot lie in their folder. It outlives a restart of the machine.
const ELSEWHERE: &str = "/var/tmp";

/// The longest folder whose socket still has a name that every system takes.
const SOCKET_FOLDER_BYTES_MAX: usize = 85;

/// Only its user may enter.
const MODE: u32 = 0o700;

/// Where a cluster lies.
#[derive(Clone, Debug)]
pub(super) struct Home {
    path: PathBuf,
    reason: Option<&'static str>,
}

impl Home {
    /// Finds the place for the cluster of a folder.
    pub(super) fn find(
        folder: &Path,
        binaries: &Path,
        account: Option<Account>,
    ) -> Result<Self, Problem> {
        let path = folder.join("pg");
        let failed = |path: &Path, error: &io::Error| {
            Problem::local(format!(
                "cannot use {} for PostgreSQL: {error}",
                path.display()
            ))
        };
        prepare(&path, account).map_err(|error| failed(&path, &error))?;
        let reason = if path.as_os_str().len() > SOCKET_FOLDER_BYTES_MAX {
            Some("its path is too long for a socket")
        } else if is_reachable(&path, binaries, account) {
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
        prepare(&path, account).map_err(|error| failed(&path, &error))?;
        Ok(Self { path, reason })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
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

fn elsewhere(folder: &Path) -> PathBuf {
    let digest = Sha256::digest(folder.as_os_str().as_encoded_bytes());
    Path::new(ELSEWHERE).join(format!("semel-{}", hex::encode(&digest[..6])))
}

/// Makes the folder, or makes sure that the one that is there is ours: others can write to the
/// place where it may lie.
fn prepare(path: &Path, account: Option<Account>) -> io::Result<()> {
    match fs::create_dir(path) {
        Ok(()) => {
            fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
            account::give(path, account)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let there = fs::symlink_metadata(path)?;
            // Root's own folder is one that an earlier start had no time to give away.
            let ours = there.uid() == account::owner(account) || there.uid() == 0;
            if !there.is_dir() || !ours || there.mode() & 0o077 != 0 {
                let message = "it exists already and belongs to another user; remove it first";
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
            }
            account::give(path, account)
        }
        Err(error) => Err(error),
    }
}

/// Whether the server's user can work there: a program is started in that directory as that user.
fn is_reachable(path: &Path, binaries: &Path, account: Option<Account>) -> bool {
    super::unprivileged(binaries, "postgres", account)
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
        prepare(&path, None).unwrap();
        prepare(&path, None).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();

        let error = prepare(&path, None).unwrap_err();

        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}
