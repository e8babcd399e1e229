//! Calls: what an attempt sends, fixed when the intent is written.
//!
//! A retry sends the very bytes of the first try. They are kept with the intent, so no later
//! change of a flow, a connection, a worker or a library can alter what goes out under the same
//! key. Credentials are no part of a call: they are read from the connection when it is sent.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kv::Operation;
use crate::name::FlowName;
use crate::span::Span;

/// What a step asks of the world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// One HTTP request.
    Http(HttpRequest),
    /// One operation on the namespace's own key-value table.
    Kv(Operation),
    /// One SQL statement.
    Db(DbRequest),
    /// One command on another machine.
    Ssh(SshRequest),
    /// One message to people.
    Notify(Message),
    /// One question to a language model.
    Llm(LlmRequest),
    /// A value that is kept by reference.
    Persist(PersistRequest),
    /// An event for other flows.
    Emit(Emission),
    /// A run of another flow.
    Start(RunStart),
    /// Work for an outside program.
    Task(TaskRequest),
}

impl Call {
    /// The kind of step that makes it.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::Kv(_) => "kv",
            Self::Db(_) => "db",
            Self::Ssh(_) => "ssh",
            Self::Notify(_) => "notify",
            Self::Llm(_) => "llm",
            Self::Persist(_) => "persist",
            Self::Emit(_) => "emit",
            Self::Start(_) => "call",
            Self::Task(_) => "task",
        }
    }

    /// The connection that it uses, where it uses one.
    #[must_use]
    pub fn connection(&self) -> Option<&str> {
        match self {
            Self::Http(request) => request.connection.as_deref(),
            Self::Db(request) => Some(&request.connection),
            Self::Ssh(request) => Some(&request.connection),
            Self::Notify(message) => Some(&message.connection),
            Self::Llm(request) => Some(&request.connection),
            Self::Kv(_) | Self::Persist(_) | Self::Emit(_) | Self::Start(_) | Self::Task(_) => None,
        }
    }

    /// How long an attempt at it may take.
    #[must_use]
    pub fn timeout(&self) -> Span {
        match self {
            Self::Http(request) => request.timeout,
            Self::Db(request) => request.timeout,
            Self::Ssh(request) => request.timeout,
            Self::Notify(message) => message.timeout,
            Self::Llm(request) => request.timeout,
            // A worker that is silent for longer counts as lost.
            Self::Task(request) => request.lease,
            Self::Kv(_) | Self::Persist(_) | Self::Emit(_) | Self::Start(_) => Span::default(),
        }
    }
}

/// Work for an outside program, rendered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskRequest {
    /// The queue that workers take it from.
    pub queue: String,
    /// What the worker gets.
    pub input: Value,
    /// How long a worker may be silent.
    pub lease: Span,
    /// When it times out as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// One HTTP request, rendered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpRequest {
    /// The connection that authenticates and limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// The method, in capitals.
    pub method: String,
    /// The absolute address.
    pub url: String,
    /// Names and values, in the order in which they are sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// The header that carries the effect's key. Absent: the key stands in the address or the body
    /// already, or goes out as `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_header: Option<String>,
    /// The body, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The body as parts, where it is sent as `multipart/form-data`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// The resource whose bytes are the body, as `res://…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// How the pages of a read are put together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<Pages>,
    /// How long the whole exchange may take.
    pub timeout: Span,
}

/// One part of a `multipart/form-data` body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The field.
    pub name: String,
    /// Its text, where it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The resource whose bytes it is, as `res://…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What the file is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_name: Option<String>,
}

/// How the pages of a read are put together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pages {
    /// Where the items of a page stand, as a dotted path into its JSON; the whole where empty.
    pub items: String,
    /// How the next page is found.
    pub next: NextPage,
    /// The most pages.
    pub most: u32,
}

/// How the next page is found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NextPage {
    /// By the `Link` header with `rel="next"`.
    Link,
    /// By a cursor that stands at a dotted path and goes into a query parameter.
    Cursor {
        /// The path.
        path: String,
        /// The parameter.
        query: String,
    },
}

/// One SQL statement with its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DbRequest {
    /// The connection.
    pub connection: String,
    /// The statement: a constant of the flow.
    pub statement: String,
    /// What `$1`, `$2`, … stand for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Value>,
    /// How many rows a change must meet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// How long it may take.
    pub timeout: Span,
}

/// One command on another machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SshRequest {
    /// The connection.
    pub connection: String,
    /// The program and its arguments; each is quoted.
    pub command: Vec<String>,
    /// What it reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Variables that it sees.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<(String, String)>,
    /// Whether a marker on the other machine tells its outcome.
    #[serde(default)]
    pub marker: bool,
    /// Whether it continues by itself once started, and calls this address when it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detach: Option<Detach>,
    /// How long it may take.
    pub timeout: Span,
}

/// A command that continues by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detach {
    /// The address that it calls when it ends.
    pub callback: String,
}

/// One message to people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The connection.
    pub connection: String,
    /// Whom it goes to.
    pub to: Vec<String>,
    /// The subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The message.
    pub text: String,
    /// The message as HTML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// How long it may take.
    pub timeout: Span,
}

/// One question to a language model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LlmRequest {
    /// The connection.
    pub connection: String,
    /// The model; otherwise the connection's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The question.
    pub prompt: String,
    /// JSON Schema of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The longest answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Where the same question gets the same answer.
    pub cache: CacheScope,
    /// How long it may take.
    pub timeout: Span,
}

/// Where the same question gets the same answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheScope {
    /// Within one run.
    #[default]
    Run,
    /// In every run of the flow.
    Flow,
    /// Everywhere in the namespace.
    Namespace,
}

/// A value that is kept by reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PersistRequest {
    /// The value. A text is kept as it is, anything else as JSON.
    pub value: Value,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its media type.
    pub media_type: String,
    /// How long it is kept.
    pub keep: Span,
}

/// A run of another flow, under a key derived from the run that asks for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunStart {
    /// The flow.
    pub flow: FlowName,
    /// Its input.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Whether the caller waits for its end.
    pub wait: bool,
}

/// An event for other flows and for subscribed webhooks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Emission {
    /// The event.
    pub event: String,
    /// What it carries.
    pub data: Value,
}
