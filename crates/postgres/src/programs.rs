//! PostgreSQL's programs on this machine, and the user they run as.

use std::io;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::account::{self, Account};

/// What a cluster is made and controlled with.
const PROGRAMS: [&str; 3] = ["initdb", "postgres", "pg_ctl"];

/// Where packages that are not on the path keep their versions.
const PACKAGED: [&str; 2] = ["/usr/lib/postgresql", "/usr/local/pgsql"];

/// The programs of one PostgreSQL version, and the user they run as.
#[derive(Clone, Debug)]
pub struct Programs {
    directory: PathBuf,
    /// The user to run as, where that is not the current one.
    account: Option<Account>,
}

/// Why no PostgreSQL can be started on this machine.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// The server's programs are not installed.
    #[error("no PostgreSQL server was found on this machine")]
    NotInstalled,

    /// PostgreSQL refuses to run as root, and there is no other user to run it as.
    #[error("running as root, and there is neither a user postgres nor nobody")]
    NoAccount,
}

impl Programs {
    /// Finds the programs and the user.
    pub fn find() -> Result<Self, FindError> {
        let directory = candidates()
            .into_iter()
            .find(|directory| is_complete(directory))
            .ok_or(FindError::NotInstalled)?;
        let directory = follow_links(directory);
        let account = account::unprivileged().map_err(|_| FindError::NoAccount)?;
        Ok(Self { directory, account })
    }

    #[cfg(test)]
    pub(crate) fn at(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            account: None,
        }
    }

    /// The directory that holds the programs.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// One of the programs, run as a user that is not root. Signals to our process group (Ctrl-C)
    /// do not reach it: we stop it ourselves, after everything that uses it.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.directory.join(program));
        command
            .env("LC_ALL", "C")
            .env_remove("PGDATA")
            .stdin(Stdio::null())
            .process_group(0);
        if let Some(account) = self.account {
            command.uid(account.uid).gid(account.gid);
        }
        command
    }

    /// Makes the user the owner of a file.
    pub fn give(&self, path: &Path) -> io::Result<()> {
        match self.account {
            Some(account) => chown(path, Some(account.uid), Some(account.gid)),
            None => Ok(()),
        }
    }

    /// The user id that owns what the server writes.
    pub fn owner(&self) -> u32 {
        self.account.map_or_else(
            || rustix::process::geteuid().as_raw(),
            |account| account.uid,
        )
    }
}

/// Where the programs lie themselves: a directory may hold links to some of them only.
fn follow_links(directory: PathBuf) -> PathBuf {
    let program = directory.join(PROGRAMS[0]).canonicalize().ok();
    let own = program.and_then(|program| program.parent().map(Path::to_owned));
    own.filter(|own| is_complete(own)).unwrap_or(directory)
}

fn is_complete(directory: &Path) -> bool {
    PROGRAMS
        .iter()
        .all(|program| directory.join(program).exists())
}

/// Every directory that may hold them, best first.
fn candidates() -> Vec<PathBuf> {
    let mut found = Vec::new();
    if let Some(path) = std::env::var_os("PATH") {
        found.extend(std::env::split_paths(&path));
    }
    found.extend(configured());
    for root in PACKAGED {
        found.push(Path::new(root).join("bin"));
        found.extend(versions(Path::new(root)));
    }
    found
}

/// What `pg_config` names.
fn configured() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(text.trim()))
}

/// The `bin` of each version below a directory, newest first.
fn versions(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(root) else {
        return Vec::new();
    };
    let mut versions: Vec<(u32, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    versions.sort_by(|one, other| other.cmp(one));
    versions.into_iter().map(|(_, path)| path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_some_of_the_programs_lead_to_all_of_them() {
        let root = tempfile::tempdir().unwrap();
        let (own, links) = (root.path().join("own"), root.path().join("links"));
        for directory in [&own, &links] {
            std::fs::create_dir(directory).unwrap();
        }
        for program in PROGRAMS {
            std::fs::write(own.join(program), "").unwrap();
            std::os::unix::fs::symlink(own.join(program), links.join(program)).unwrap();
        }

        assert_eq!(follow_links(links), own.canonicalize().unwrap());
        assert_eq!(follow_links(own.clone()), own.canonicalize().unwrap());
    }

    #[test]
    fn the_newest_version_comes_first() {
        let root = tempfile::tempdir().unwrap();
        for name in ["9", "17", "15", "common"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
        }

        let found = versions(root.path());

        let expected = ["17/bin", "15/bin", "9/bin"].map(|name| root.path().join(name));
        assert_eq!(found, expected);
    }
}
