//! The codes of errors that arise here and not at a server: stable words, each with a page
//! `docs/errors/<code>.md`. What a server refuses comes with the API's own codes.

/// The command line cannot be understood.
pub(crate) const USAGE: &str = "usage";
/// Something failed on this machine.
pub(crate) const LOCAL: &str = "local";
/// The configuration file cannot be read.
pub(crate) const CONFIG: &str = "config";
/// A file is in the way.
pub(crate) const FILE_EXISTS: &str = "file-exists";
/// A file is missing.
pub(crate) const FILE_NOT_FOUND: &str = "file-not-found";
/// There is no token.
pub(crate) const TOKEN_MISSING: &str = "token-missing";
/// The token is not sent to the configured server.
pub(crate) const TOKEN_WITHHELD: &str = "token-withheld";
/// The value of a secret is not sent to the configured server.
pub(crate) const SECRET_WITHHELD: &str = "secret-withheld";
/// Somebody else may have made the folder of `semel dev`.
pub(crate) const FOLDER_UNKNOWN: &str = "folder-unknown";
/// A `semel dev` runs in this directory.
pub(crate) const ALREADY_RUNNING: &str = "already-running";
/// Another program listens there.
pub(crate) const ADDRESS_IN_USE: &str = "address-in-use";
/// The schema is older than the binary.
pub(crate) const MIGRATIONS_PENDING: &str = "migrations-pending";
/// The schema could not be brought up to date.
pub(crate) const MIGRATION_FAILED: &str = "migration-failed";
/// `semel doctor` found something.
pub(crate) const NOT_IN_ORDER: &str = "not-in-order";
/// The run has not ended yet.
pub(crate) const RUN_UNDER_WAY: &str = "run-under-way";
/// The run is in doubt.
pub(crate) const RUN_IN_DOUBT: &str = "run-in-doubt";
/// The run failed, was cancelled, or needs an operator.
pub(crate) const RUN_FAILED: &str = "run-failed";
/// A reconcile pass failed.
pub(crate) const RECONCILE_FAILED: &str = "reconcile-failed";
/// A rehearsal failed, or could not be played.
pub(crate) const REHEARSAL_FAILED: &str = "rehearsal-failed";
/// The same command promoted the release before, and another one is live now.
pub(crate) const PROMOTED_BEFORE: &str = "promoted-before";
/// A test message to where alerts go was not delivered.
pub(crate) const ALERT_UNDELIVERED: &str = "alert-undelivered";
/// Another process holds the key.
pub(crate) const ONCE_HELD: &str = "once-held";
/// Whether the command under a key happened is unknown.
pub(crate) const ONCE_IN_DOUBT: &str = "once-in-doubt";
/// The command under a key says that nothing happened.
pub(crate) const ONCE_FAILED: &str = "once-failed";
/// `semel explain` knows no such topic.
pub(crate) const TOPIC_NOT_FOUND: &str = "topic-not-found";

macro_rules! page {
    ($code:literal) => {
        (
            $code,
            include_str!(concat!("../../../docs/errors/", $code, ".md")),
        )
    };
}

/// The page of each code.
pub(crate) const PAGES: [(&str, &str); 25] = [
    page!("usage"),
    page!("local"),
    page!("config"),
    page!("file-exists"),
    page!("file-not-found"),
    page!("token-missing"),
    page!("token-withheld"),
    page!("secret-withheld"),
    page!("folder-unknown"),
    page!("already-running"),
    page!("address-in-use"),
    page!("migrations-pending"),
    page!("migration-failed"),
    page!("not-in-order"),
    page!("run-under-way"),
    page!("run-in-doubt"),
    page!("run-failed"),
    page!("reconcile-failed"),
    page!("rehearsal-failed"),
    page!("promoted-before"),
    page!("alert-undelivered"),
    page!("once-held"),
    page!("once-in-doubt"),
    page!("once-failed"),
    page!("topic-not-found"),
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_code_has_its_page_and_no_second_meaning() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let codes = [
            USAGE,
            LOCAL,
            CONFIG,
            FILE_EXISTS,
            FILE_NOT_FOUND,
            TOKEN_MISSING,
            TOKEN_WITHHELD,
            SECRET_WITHHELD,
            FOLDER_UNKNOWN,
            ALREADY_RUNNING,
            ADDRESS_IN_USE,
            MIGRATIONS_PENDING,
            MIGRATION_FAILED,
            NOT_IN_ORDER,
            RUN_UNDER_WAY,
            RUN_IN_DOUBT,
            RUN_FAILED,
            REHEARSAL_FAILED,
            PROMOTED_BEFORE,
            ALERT_UNDELIVERED,
            ONCE_HELD,
            ONCE_IN_DOUBT,
            ONCE_FAILED,
            TOPIC_NOT_FOUND,
        ];
        for code in codes {
            let page = root.join(format!("docs/errors/{code}.md"));
            let page = std::fs::read_to_string(page).unwrap_or_default();

            assert!(
                page.starts_with(&format!("# {code}\n")),
                "{code} has a page"
            );
            assert!(code.parse::<semel_api::Code>().is_err(), "{code} is ours");
            assert!(PAGES.iter().any(|(known, _)| *known == code), "{code}");
        }
    }
}
