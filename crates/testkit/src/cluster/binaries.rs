//! Finding PostgreSQL on this machine, and the user to run it as.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The directory that holds `initdb` and `postgres`.
pub(super) fn directory() -> Result<PathBuf> {
    candidates()
        .into_iter()
        .find(|directory| directory.join("initdb").exists() && directory.join("postgres").exists())
        .context("no PostgreSQL server found: install the package postgresql")
}

/// Every place worth a look, best first.
fn candidates() -> Vec<PathBuf> {
    let mut found = Vec::new();
    found.extend(configured());
    found.extend(packaged());
    if let Some(path) = std::env::var_os("PATH") {
        found.extend(std::env::split_paths(&path));
    }
    found
}

/// What `pg_config` names, which is the version that the machine's owner chose.
fn configured() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(text.trim()))
}

/// Debian's versioned directories, newest first.
fn packaged() -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir("/usr/lib/postgresql") else {
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

/// A user of this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// Whom PostgreSQL runs as: ourselves, unless we are root, whom it refuses.
pub(super) fn account() -> Result<Option<Account>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = std::fs::read_to_string(Path::new("/etc/passwd")).context("cannot list users")?;
    match ["postgres", "nobody"]
        .iter()
        .find_map(|name| find_account(&users, name))
    {
        Some(account) => Ok(Some(account)),
        None => bail!("running as root, and there is neither a user postgres nor nobody"),
    }
}

fn find_account(users: &str, name: &str) -> Option<Account> {
    let line = users
        .lines()
        .find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    let uid = fields.next()?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    Some(Account { uid, gid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let users = "root:x:0:0::/root:/bin/sh\npostgres2:x:7:8:::\npostgres:x:101:104:::\n";

        let account = find_account(users, "postgres").unwrap();

        assert_eq!((account.uid, account.gid), (101, 104));
    }
}
