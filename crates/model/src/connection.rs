//! Connections: where a destination is, how Semel authenticates there, and its limits.
//!
//! A connection names its secrets and never holds one. It is stored apart from the flows that use
//! it, so that a flow can be shown, copied and checked without any credential.

pub mod fill;
mod find_url;
mod idempotency_keys;
pub mod preset;
mod refusals;

pub use self::find_url::{FindUrl, ParseFindUrlError};
pub use self::idempotency_keys::{IdempotencyKeys, KeyPlace};
pub use self::refusals::KEY_REFUSALS;

use serde::{Deserialize, Serialize};

use crate::span::Span;

/// A destination, as its owner describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connection {
    /// What kind of destination it is, and where.
    pub to: Target,
    /// What the destination does with idempotency keys.
    #[serde(default, skip_serializing_if = "IdempotencyKeys::is_usual")]
    pub idempotency_keys: IdempotencyKeys,
    /// The HTTP statuses with which the destination refuses only after it has looked up the key, so
    /// that such a refusal of a repeat also says that no earlier request was carried out. Absent:
    /// [`KEY_REFUSALS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_refusals: Option<Vec<u16>>,
    /// How long the destination may still work on a request after the exchange has ended. Absent:
    /// as the server is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acts_within: Option<Span>,
    /// Where an operator looks up what an effect came to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub find_url: Option<FindUrl>,
    /// The limits of requests to the destination.
    #[serde(default)]
    pub limits: ConnectionLimits,
    /// The longest that one exchange may take; a step may ask for less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
}

/// What kind of destination it is, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Target {
    /// Anything that speaks HTTP.
    Http(HttpTarget),
    /// A PostgreSQL of its own.
    Postgres(PostgresTarget),
    /// A server that takes mail.
    Smtp(SmtpTarget),
    /// A machine with an SSH server.
    Ssh(SshTarget),
    /// A Slack workspace, by a bot's token.
    Slack(SlackTarget),
    /// An address that takes deliveries signed as Standard Webhooks.
    Webhook(WebhookTarget),
    /// A language model.
    Llm(LlmTarget),
}

/// Anything that speaks HTTP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpTarget {
    /// What the paths of steps are appended to.
    pub base_url: String,
    /// How Semel authenticates.
    #[serde(default)]
    pub auth: HttpAuth,
    /// Headers that every call carries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// Certificates to trust besides the system's, as PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<String>,
    /// How many redirects a read may follow, up to three.
    #[serde(default)]
    pub redirects: u8,
}

/// How Semel authenticates. Secrets are named, never held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum HttpAuth {
    /// Not at all.
    #[default]
    None,
    /// `Authorization: Bearer SECRET`.
    Bearer {
        /// The secret's name.
        secret: String,
    },
    /// `Authorization: Basic …`.
    Basic {
        /// The user.
        user: String,
        /// The name of the password's secret.
        secret: String,
    },
    /// A header of its own.
    Header {
        /// The header.
        name: String,
        /// What stands before the secret.
        #[serde(default)]
        prefix: String,
        /// The secret's name.
        secret: String,
    },
    /// OAuth 2 client credentials: a token is fetched, kept until shortly before it expires, and
    /// sent as a bearer.
    Oauth2 {
        /// Where tokens are fetched.
        token_url: String,
        /// The client id.
        client_id: String,
        /// The name of the client's secret.
        secret: String,
        /// The scope.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scope: Option<String>,
    },
    /// A client certificate.
    Mtls {
        /// The certificate and what leads to its root, as PEM.
        certificate: String,
        /// The name of the secret that holds the private key, as PEM.
        secret: String,
    },
}

/// A PostgreSQL of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostgresTarget {
    /// The host, or the folder of its socket, which an operator has to allow.
    pub host: String,
    /// The port.
    #[serde(default = "postgres_port")]
    pub port: u16,
    /// The database.
    pub database: String,
    /// The role that Semel logs in as: one with few rights.
    pub user: String,
    /// The name of the password's secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Whether the exchange is encrypted.
    #[serde(default)]
    pub tls: Tls,
    /// Certificates to trust besides the system's, as PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<String>,
}

/// A server that takes mail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SmtpTarget {
    /// The host.
    pub host: String,
    /// The port.
    #[serde(default = "submission_port")]
    pub port: u16,
    /// Whether the exchange is encrypted.
    #[serde(default)]
    pub tls: Tls,
    /// The user to log in as, where the server requires a login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The name of the password's secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Whom the mail is from.
    pub from: String,
}

/// A machine with an SSH server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SshTarget {
    /// The host.
    pub host: String,
    /// The port.
    #[serde(default = "ssh_port")]
    pub port: u16,
    /// The user to log in as.
    pub user: String,
    /// The name of the secret that holds the private key, in OpenSSH's form.
    pub secret: String,
    /// The host key that is accepted, and no other: `SHA256:…`.
    pub host_key: String,
    /// Variables that a step may set there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
}

/// A Slack workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlackTarget {
    /// Where its API is.
    #[serde(default = "slack_url")]
    pub base_url: String,
    /// The name of the secret that holds the bot's token.
    pub secret: String,
}

/// An address that takes deliveries signed as Standard Webhooks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookTarget {
    /// The address.
    pub url: String,
    /// The name of the secret that deliveries are signed with (`whsec_…`).
    pub secret: String,
}

/// A language model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LlmTarget {
    /// Which API it has.
    pub shape: LlmShape,
    /// Where the API is.
    pub base_url: String,
    /// The name of the secret that holds the API's key.
    pub secret: String,
    /// The model where a step names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What a million tokens cost, read and written, in the owner's currency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<LlmPrice>,
}

/// The API of a language model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LlmShape {
    /// `POST /chat/completions`.
    Openai,
    /// `POST /messages`.
    Anthropic,
}

/// What a million tokens cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LlmPrice {
    /// Those that the model reads.
    pub input: f64,
    /// Those that it writes.
    pub output: f64,
}

/// Whether an exchange is encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tls {
    /// From the first byte, or refused.
    #[default]
    Required,
    /// After a greeting in the clear, or refused.
    Starttls,
    /// Not at all: for a destination on the same machine.
    Off,
}

/// The limits of requests to a destination. Live servers divide room and rate among them; each has a
/// breaker of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConnectionLimits {
    /// The most exchanges at once.
    pub concurrency: u32,
    /// The most exchanges per second; without a bound where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_second: Option<u32>,
    /// The circuit breaker opens after this many failures in a row: nothing is sent.
    pub open_after: u32,
    /// How long the circuit breaker stays open.
    pub open_for: Span,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            concurrency: 64,
            per_second: None,
            open_after: 20,
            open_for: Span::from_const_secs(10),
        }
    }
}

impl Connection {
    /// A connection to an HTTP destination with nothing but an address.
    #[must_use]
    pub fn to(target: Target) -> Self {
        Self {
            to: target,
            idempotency_keys: IdempotencyKeys::default(),
            final_refusals: None,
            acts_within: None,
            find_url: None,
            limits: ConnectionLimits::default(),
            timeout: None,
        }
    }

    /// The kind of destination, in one word.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self.to {
            Target::Http(_) => "http",
            Target::Postgres(_) => "postgres",
            Target::Smtp(_) => "smtp",
            Target::Ssh(_) => "ssh",
            Target::Slack(_) => "slack",
            Target::Webhook(_) => "webhook",
            Target::Llm(_) => "llm",
        }
    }

    /// The names of the secrets that it needs.
    #[must_use]
    pub fn secrets(&self) -> Vec<&str> {
        match &self.to {
            Target::Http(http) => http.auth.secret().into_iter().collect(),
            Target::Postgres(postgres) => postgres.secret.as_deref().into_iter().collect(),
            Target::Smtp(smtp) => smtp.secret.as_deref().into_iter().collect(),
            Target::Ssh(ssh) => vec![&ssh.secret],
            Target::Slack(slack) => vec![&slack.secret],
            Target::Webhook(webhook) => vec![&webhook.secret],
            Target::Llm(llm) => vec![&llm.secret],
        }
    }
}

impl HttpAuth {
    /// Where its tokens are fetched, where it has some.
    #[must_use]
    pub fn token_url(&self) -> Option<&str> {
        match self {
            Self::Oauth2 { token_url, .. } => Some(token_url),
            Self::None
            | Self::Bearer { .. }
            | Self::Basic { .. }
            | Self::Header { .. }
            | Self::Mtls { .. } => None,
        }
    }

    /// The name of its secret.
    #[must_use]
    pub fn secret(&self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::Bearer { secret }
            | Self::Basic { secret, .. }
            | Self::Header { secret, .. }
            | Self::Oauth2 { secret, .. }
            | Self::Mtls { secret, .. } => Some(secret),
        }
    }
}

const fn postgres_port() -> u16 {
    5432
}

const fn submission_port() -> u16 {
    587
}

const fn ssh_port() -> u16 {
    22
}

fn slack_url() -> String {
    "https://slack.com/api".to_owned()
}
