//! A writer's own connection: it prepares each statement once and is replaced when it breaks.

use std::collections::HashMap;
use std::time::Duration;

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, Statement};

use crate::cell::{Cell, Connector, PgConnection};
use crate::durability::{STANDBY, UNSAFE};

/// The first pause before something is tried again.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// The longest pause before something is tried again.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Stands in front of each statement that is a transaction and a commit by itself, so that a wire
/// can be watched for commits. Others name their kind: `/* commits alone: take */`.
pub(crate) const COMMITS_ALONE: &str = "/* commits alone: record */";

/// A connection of a writer's own.
pub struct WriterConnection {
    connector: Connector,
    connection: Option<PgConnection>,
    prepared: HashMap<&'static str, Statement>,
    pause: Duration,
}

/// What a failed write means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorClass {
    /// A row of the batch was fenced off; nothing was written.
    Fenced,
    /// The connection broke or the server went away: whether it was written is not known.
    Unknown,
    /// The server answers but must not be written to: a standby, or one that may lose what it
    /// acknowledges. Nothing was written; another server may answer the next connection.
    Unfit,
    /// The server asks to try again (deadlock, lock or statement timeout); nothing was written.
    Again,
    /// The values are refused; trying again would not help.
    Refused,
}

impl WriterConnection {
    /// A connection that connects when it is first used.
    pub fn new(cell: &Cell) -> Self {
        Self::over(cell.connector())
    }

    pub(crate) fn over(connector: &Connector) -> Self {
        Self {
            connector: connector.clone(),
            connection: None,
            prepared: HashMap::new(),
            pause: PAUSE_MIN,
        }
    }

    /// The connection, made anew if it is gone.
    pub(crate) async fn client(&mut self) -> Result<&Client, Error> {
        if self
            .connection
            .as_ref()
            .is_none_or(|open| open.client.is_closed())
        {
            self.prepared.clear();
            self.connection = Some(self.connector.open_writer().await?);
            self.pause = PAUSE_MIN;
        }
        match &self.connection {
            Some(open) => Ok(&open.client),
            None => unreachable!("the connection was just made"),
        }
    }

    /// The connection, with these statements prepared. Made anew if it is gone.
    pub(crate) async fn prepare(
        &mut self,
        texts: &[&'static str],
    ) -> Result<PreparedClient<'_>, Error> {
        self.client().await?;
        let Some(PgConnection { client, .. }) = &self.connection else {
            unreachable!("the connection was just made");
        };
        for text in texts {
            if !self.prepared.contains_key(text) {
                self.prepared.insert(text, client.prepare(text).await?);
            }
        }
        let prepared = &self.prepared;
        Ok(PreparedClient { client, prepared })
    }

    /// Gives the connection up; the next use makes another.
    pub(crate) fn give_up(&mut self) {
        self.connection = None;
    }

    /// Notes that a write succeeded: the next trouble begins with a short pause again.
    pub(crate) fn succeeded(&mut self) {
        self.pause = PAUSE_MIN;
    }

    /// Waits a little, longer each time until something succeeds, before the next try.
    pub(crate) async fn rest(&mut self) {
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

/// A connection whose statements are prepared.
#[derive(Clone, Copy)]
pub(crate) struct PreparedClient<'a> {
    pub(crate) client: &'a Client,
    prepared: &'a HashMap<&'static str, Statement>,
}

impl<'a> PreparedClient<'a> {
    /// A statement that was prepared before.
    pub(crate) fn statement(&self, text: &'static str) -> &'a Statement {
        match self.prepared.get(text) {
            Some(statement) => statement,
            None => unreachable!("prepared before use: {text}"),
        }
    }
}

/// The code that `all_or_nothing` raises.
pub(crate) const FENCED: &str = "SM001";

/// Reads an error as what it means for the write.
pub(crate) fn classify(error: &Error) -> ErrorClass {
    match error.code() {
        None if is_local(error) => ErrorClass::Refused,
        None => ErrorClass::Unknown,
        Some(code) if code.code() == FENCED => ErrorClass::Fenced,
        Some(code)
            if [STANDBY, UNSAFE].contains(&code.code())
                || *code == SqlState::READ_ONLY_SQL_TRANSACTION =>
        {
            ErrorClass::Unfit
        }
        Some(code)
            if [
                SqlState::T_R_DEADLOCK_DETECTED,
                SqlState::T_R_SERIALIZATION_FAILURE,
                SqlState::LOCK_NOT_AVAILABLE,
                SqlState::QUERY_CANCELED,
            ]
            .contains(code) =>
        {
            ErrorClass::Again
        }
        Some(code) if PASSING.iter().any(|class| code.code().starts_with(class)) => {
            ErrorClass::Unknown
        }
        Some(_) => ErrorClass::Refused,
    }
}

/// Classes of SQLSTATE that speak of the moment, the session or the schema, and never of the
/// values. 57 is the operator's doing (shutdown, crash), 08 the connection's, 53 resources, 58 the
/// system's, 25 the session's own time limit, 40 a conflict whose end may not be known. 0A, 26 and
/// 42 are statements that no longer fit the session or the schema (a migration in progress, a plan
/// that was prepared before it), 28, 3D and 3F whom and what the session is for: another connection
/// may do.
const PASSING: [&str; 12] = [
    "57", "08", "53", "25", "58", "40", "0A", "26", "28", "3D", "3F", "42",
];
/// Whether a statement could not even be put into a message, so that nothing was sent: no other
/// connection would take it either.
fn is_local(error: &Error) -> bool {
    let cause = std::error::Error::source(error);
    let cause = cause.and_then(|cause| cause.downcast_ref::<std::io::Error>());
    cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::InvalidInput)
}
