//! Why there is no report.

use semel_engine::{SecretError, StartError};
use semel_store::{MigrateError, ReadError};

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum RehearseError {
    /// The text is no sound flow.
    #[error("the flow has mistakes:\n{0}")]
    Invalid(String),
    /// There is nothing to play.
    #[error(
        "the flow has no examples: add `examples` with an input and the answers of destinations"
    )]
    NoExamples,
    /// The selection names an example that there is not.
    #[error("there is no example `{0}`")]
    UnknownExample(String),
    /// The selection names a fault that there is not.
    #[error(
        "there is no case with the fault `{0}`; without `--fault` the report lists all of them"
    )]
    UnknownFault(String),
    /// The database did not answer.
    #[error(transparent)]
    Database(#[from] ReadError),
    /// The schema of the rehearsal could not be made.
    #[error(
        "cannot create a schema for the rehearsal: the database role needs CREATE on the database (GRANT CREATE ON DATABASE … TO …)"
    )]
    Create(#[source] ReadError),
    /// The tables of the rehearsal could not be made.
    #[error("cannot create the tables of the rehearsal: check `semel doctor`, then rehearse again")]
    Schema(#[source] MigrateError),
    /// The engine could not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A key could not be made.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The machine has no room for another thread.
    #[error("the machine has no room for another thread: rehearse again later")]
    Threads(#[from] std::io::Error),
    /// A part of the rehearsal has ended by itself: a defect.
    #[error(
        "a process of the rehearsal ended by itself: a defect of Semel, report it with the server's log"
    )]
    Stopped,
    /// Too many rehearsals of this namespace, or of all, wait for this server.
    #[error(
        "too many rehearsals of this namespace, or of all, wait for this server: try again later"
    )]
    Busy,
    /// The cases do not come to rest.
    #[error("the cases do not come to rest: the machine may be too busy, or the flow never ends")]
    Restless,
}
