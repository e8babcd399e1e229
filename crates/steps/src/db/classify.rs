//! What an error of the server says: whether it may pass, and how a commit ended.

use std::error::Error as _;

use semel_model::Fault;
use tokio_postgres::Error;
use tokio_postgres::error::Severity;

/// How a `COMMIT` that was answered with an error ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    RolledBack,
    Unknown,
}

/// Classes of SQLSTATE that speak of the moment and not of the statement: connection, conflict
/// with another transaction, resources, the operator's doing, the system's own trouble.
const PASSING: [&str; 5] = ["08", "40", "53", "57", "58"];

/// Single codes that do so: an object in use, a lock that was not to be had, a session that stood
/// idle in its transaction.
const PASSING_CODES: [&str; 3] = ["55006", "55P03", "25P03"];

/// An error from before `COMMIT` was sent: nothing happened.
pub(super) fn fault(error: Error) -> Fault {
    let Some(code) = error.code().map(|code| code.code().to_owned()) else {
        return Fault::passing("no-connection", describe(&error));
    };
    match passes(&code) {
        true => Fault::passing(format!("sql-{code}"), describe(&error)),
        false => Fault::permanent(format!("sql-{code}"), describe(&error)),
    }
}

fn passes(code: &str) -> bool {
    PASSING.iter().any(|class| code.starts_with(class)) || PASSING_CODES.contains(&code)
}

/// How a commit ended that the server answered with an error.
///
/// A plain error is raised before the commit record is written, by a deferred constraint or a
/// conflict: the transaction is rolled back. A fatal one may end a session that was waiting for
/// its standby, when the record is on disk already; and what speaks for the connection (class 08)
/// may be a pooler in between, which knows no more than we do.
pub(super) fn commit_ended(error: &Error) -> Ended {
    match error.as_db_error() {
        Some(refusal)
            if refusal.parsed_severity() == Some(Severity::Error)
                && !refusal.code().code().starts_with("08")
                && !refusal.code().code().starts_with("57P") =>
        {
            Ended::RolledBack
        }
        Some(_) | None => Ended::Unknown,
    }
}

/// The error in the server's words, without the statement.
pub(super) fn describe(error: &Error) -> String {
    if let Some(refusal) = error.as_db_error() {
        return match refusal.detail() {
            Some(detail) => format!("{} ({detail})", refusal.message()),
            None => refusal.message().to_owned(),
        };
    }
    let said = match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    with_advice(said)
}

/// A server without TLS is met by everybody who has one for development.
fn with_advice(said: String) -> String {
    match said.contains("does not support TLS") {
        true => format!(
            "{said}; to connect without TLS, create the connection with `--set to.postgres.tls=off`"
        ),
        false => said,
    }
}

#[cfg(test)]
mod tests {
    use super::with_advice;

    #[test]
    fn a_server_without_tls_is_told_how_to_connect_to_it() {
        let said = "error performing TLS handshake: server does not support TLS";

        let advised = with_advice(said.to_owned());

        assert!(advised.starts_with(said), "{advised}");
        assert!(advised.contains("--set to.postgres.tls=off"), "{advised}");
        assert_eq!(with_advice("refused".to_owned()), "refused");
    }
}
