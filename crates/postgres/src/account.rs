//! The user that PostgreSQL runs as: the current one, except root, which it refuses.

/// A user of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// Root has to run PostgreSQL as another user, and none was found.
#[derive(Debug)]
pub(crate) struct NoAccount;

/// The user to become where the current one is root.
pub(crate) fn unprivileged() -> Result<Option<Account>, NoAccount> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let found = ["postgres", "nobody"]
        .iter()
        .find_map(|name| find(&users, name));
    found.map(Some).ok_or(NoAccount)
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
