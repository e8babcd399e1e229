//! Finding PostgreSQL's programs on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::answer::Problem;

/// What a cluster is made and driven with.
const PROGRAMS: [&str; 3] = ["initdb", "postgres", "pg_ctl"];

/// Where the packagings that are not on the path keep their versions.
const PACKAGED: [&str; 2] = ["/usr/lib/postgresql", "/usr/local/pgsql"];

/// The directory that holds the programs.
pub(super) fn directory() -> Result<PathBuf, Problem> {
    candidates()
        .into_iter()
        .find(|directory| is_complete(directory))
        .ok_or_else(|| {
            Problem::local("no PostgreSQL server was found on this machine").hint(
                "install it (Debian: `apt install postgresql`, macOS: `brew install postgresql`), \
                 or set DATABASE_URL and use `semel migrate` and `semel serve`",
            )
        })
}

fn is_complete(directory: &Path) -> bool {
    PROGRAMS
        .iter()
        .all(|program| directory.join(program).exists())
}

/// Every place worth a look, best first.
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
