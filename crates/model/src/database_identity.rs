//! Which database a connection leads to, by facts that no client chooses.

/// A database, told apart from all others. Standbys and physical copies have the identity of their
/// primary: they hold the same rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseIdentity {
    /// The identifier that the server's data got when the server was made.
    pub system: i64,
    /// The database's number within the server.
    pub database: u32,
}
