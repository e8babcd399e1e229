//! Requests: what an attempt sends, fixed when the intent is written.
//!
//! A retry sends the very bytes of the first try. They are kept with the intent, so no later
//! change of a flow, a connection, a worker or a library can alter what goes out under the same
//! key. What signs a request in is no part of it: that is read from the connection when it is sent.
//!
//! A request has one of three destinies, and each has a type of its own:
//!
//! ```text
//! StepRequest ─┬─ External ─▶ an executor of `semel-steps` performs it
//!              ├─ Local ────▶ the engine makes the change in Semel's own tables
//!              └─ Task ─────▶ a worker outside claims it and answers
//! ```
//!
//! A new kind of external request is a file beside the others and a line in `external_requests!`.

mod db;
mod http;
mod llm;
mod local;
mod notify;
mod ssh;
mod task;

pub use db::DbRequest;
pub use http::{HttpRequest, MultipartField, NextPage, Pagination};
pub use llm::{CacheScope, LlmRequest};
pub use local::{Emission, LocalChange, PersistRequest, RunStart};
pub use notify::Message;
pub use ssh::{Detach, SshRequest};
pub use task::TaskRequest;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::span::Span;

/// Makes the enum of external requests from one line per kind: the word of its step, its name in
/// Rust, and what it sends.
macro_rules! external_requests {
    ($($(#[$about:meta])* $word:literal => $kind:ident($request:ty);)+) => {
        /// What an executor is asked to perform.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub enum ExternalRequest {
            $($(#[$about])* #[serde(rename = $word)] $kind($request),)+
        }

        impl ExternalRequest {
            /// The kinds of steps that make them.
            pub const KINDS: &[&str] = &[$($word,)+];

            /// The kind of step that makes it.
            #[must_use]
            pub const fn kind(&self) -> &'static str {
                match self {
                    $(Self::$kind(_) => $word,)+
                }
            }

            /// What all kinds of external requests tell about themselves.
            fn of_kind(&self) -> &dyn ExternalKind {
                match self {
                    $(Self::$kind(request) => request,)+
                }
            }
        }
    };
}

external_requests! {
    /// One HTTP request.
    "http" => Http(HttpRequest);
    /// One SQL statement.
    "db" => Db(DbRequest);
    /// One command on another machine.
    "ssh" => Ssh(SshRequest);
    /// One message to people.
    "notify" => Notify(Message);
    /// One question to a language model.
    "llm" => Llm(LlmRequest);
}

/// What a step asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepRequest {
    /// A request to a destination, which an executor performs.
    External(ExternalRequest),
    /// A change of Semel's own tables.
    Local(LocalChange),
    /// Work for an outside program.
    Task(TaskRequest),
}

impl StepRequest {
    /// The kind of step that makes it.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::External(request) => request.kind(),
            Self::Local(change) => change.kind(),
            Self::Task(_) => "task",
        }
    }

    /// The connection that it uses, where it uses one.
    #[must_use]
    pub fn connection(&self) -> Option<&str> {
        match self {
            Self::External(request) => request.connection(),
            Self::Local(_) | Self::Task(_) => None,
        }
    }

    /// How long an attempt at it may take.
    #[must_use]
    pub fn timeout(&self) -> Span {
        match self {
            Self::External(request) => request.timeout(),
            // A worker that is silent for longer counts as lost.
            Self::Task(request) => request.lease,
            Self::Local(_) => Span::default(),
        }
    }

    /// What people see of it.
    #[must_use]
    pub fn summary(&self) -> RequestSummary {
        match self {
            Self::External(request) => request.of_kind().summary(),
            Self::Local(change) => change.summary(),
            Self::Task(request) => request.summary(),
        }
    }
}

impl From<ExternalRequest> for StepRequest {
    fn from(request: ExternalRequest) -> Self {
        Self::External(request)
    }
}

impl From<LocalChange> for StepRequest {
    fn from(change: LocalChange) -> Self {
        Self::Local(change)
    }
}

impl From<TaskRequest> for StepRequest {
    fn from(request: TaskRequest) -> Self {
        Self::Task(request)
    }
}

impl ExternalRequest {
    /// The connection that it goes over, where it goes over one.
    #[must_use]
    pub fn connection(&self) -> Option<&str> {
        self.of_kind().connection()
    }

    /// The address that it names itself, where it goes over no connection.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        self.of_kind().address()
    }

    /// How long the whole exchange may take.
    #[must_use]
    pub fn timeout(&self) -> Span {
        self.of_kind().timeout()
    }

    /// What the destination says that answering took; null where the kind has no such thing.
    #[must_use]
    pub fn usage(&self, response: &Value) -> Value {
        self.of_kind().usage(response)
    }
}

/// What people see of a request, without the connection that signs it in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestSummary {
    /// Where it goes, or what it is called.
    pub what: String,
    /// What it carries.
    pub body: Option<String>,
}

/// What each kind of external request tells about itself.
trait ExternalKind {
    /// The connection that it goes over, where it goes over one.
    fn connection(&self) -> Option<&str>;

    /// The address that it names itself, where it goes over no connection: the limits of that host
    /// are asked.
    fn address(&self) -> Option<&str>;

    /// How long the whole exchange may take.
    fn timeout(&self) -> Span;

    /// What people see of it.
    fn summary(&self) -> RequestSummary;

    /// What the destination says that answering took.
    fn usage(&self, _: &Value) -> Value {
        Value::Null
    }
}

fn json_text<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
