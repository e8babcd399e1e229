//! The user that PostgreSQL runs as: ours, unless we are root, which it refuses.

use std::io;
use std::os::unix::fs::chown;
use std::path::Path;

use crate::answer::Problem;

/// A user of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// The user to become; nothing if we are not root.
pub(super) fn unprivileged() -> Result<Option<Account>, Problem> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let found = ["postgres", "nobody"]
        .iter()
        .find_map(|name| find(&users, name));
    found.map(Some).ok_or_else(|| {
        Problem::local("running as root, and there is neither a user postgres nor nobody")
            .hint("run `semel dev` as an ordinary user: PostgreSQL refuses to run as root")
    })
}

/// Who owns what the server writes.
pub(super) fn owner(account: Option<Account>) -> u32 {
    account.map_or_else(
        || rustix::process::geteuid().as_raw(),
        |account| account.uid,
    )
}

/// Makes a file the user's.
pub(super) fn give(path: &Path, account: Option<Account>) -> io::Result<()> {
    match account {
        Some(account) => chown(path, Some(account.uid), Some(account.gid)),
        None => Ok(()),
    }
}

fn find(users: &str, name: &str) -> Option<Account> {
    let line = users
        .lines()
        .find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    Some(Account {
        uid: fields.next()?.parse().ok()?,
        gid: fields.next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let users = "root:x:0:0::/:/bin/sh\npostgres2:x:7:8:::\npostgres:x:101:104:::\n";

        assert_eq!(
            find(users, "postgres"),
            Some(Account { uid: 101, gid: 104 })
        );
        assert_eq!(find(users, "nobody"), None);
    }
}
