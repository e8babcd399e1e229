//! What an operator may choose about a process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use ipnet::IpNet;
use semel_model::{DatabaseIdentity, Span};
use semel_steps::{HttpProxy, NoResources, ResourceStore};

use crate::archive::RunArchive;
use crate::memory::{self, Budget};
use crate::secret::Secret;
use crate::vault::MasterKeys;

/// What an operator may choose about a process.
#[derive(Clone, Debug)]
pub struct Options {
    /// Host and process number, for people.
    pub process: String,
    /// How long runs stay with a process that does not renew its session.
    pub lease: Span,
    /// How many runs the process holds at once.
    pub capacity: usize,
    /// How much memory the runs that it holds may take, about.
    pub memory: Budget,
    /// How many bytes what destinations answered may take while it is read, about.
    pub answer_bytes: usize,
    /// Where callbacks reach this installation.
    pub public_url: String,
    /// The keys that callback addresses are derived from, the current one first.
    pub secret: Secret,
    /// The outermost keys that secrets are encrypted with.
    pub masters: MasterKeys,
    /// Private or special addresses that flows may reach all the same.
    pub allow_private: Vec<IpNet>,
    /// The only hosts that flows may reach, where not every host is allowed.
    pub allow_hosts: Option<Vec<String>>,
    /// Folders whose Unix sockets flows may use; none by default.
    pub allow_sockets: Vec<PathBuf>,
    /// The proxy that HTTP requests of flows go through.
    pub http_proxy: Option<HttpProxy>,
    /// Where this installation itself listens: no flow may reach it, whatever is opened.
    pub own: Vec<SocketAddr>,
    /// The installation's own database: no flow may reach it, by whatever way. Without it, no flow
    /// may use a socket.
    pub own_database: Option<DatabaseIdentity>,
    /// How long a destination may still act on a request after its exchange has ended, where its
    /// connection does not say (`acts_within`). Until 3 s for room, lease, timeout and this have
    /// passed, neither a probe nor an operator may say that an effect did not happen.
    pub settle_margin: Span,
    /// How long ended runs are kept.
    pub history: Span,
    /// Where ended runs go before they are deleted; without it they are only deleted.
    pub archive: Option<Arc<dyn RunArchive>>,
    /// How long archived runs are kept, from their end; for ever without it.
    pub archive_keep: Option<Span>,
    /// How long acts of the audit record are kept, 30 days at least; for ever without it.
    pub audit_keep: Option<Span>,
    /// How long tokens that a person made work after the last sign-in of that person.
    pub person_tokens: Span,
    /// Whether runs are deleted without being archived although others were.
    pub archive_ended: bool,
    /// Where large outputs are kept.
    pub resources: Arc<dyn ResourceStore>,
    /// Where answers are kept that could not be recorded before the process stopped.
    pub state_dir: Option<PathBuf>,
}

impl Options {
    /// The defaults.
    pub fn new(secret: Secret) -> Self {
        Self {
            process: format!("pid {}", std::process::id()),
            lease: Span::from_secs(30),
            capacity: 1024,
            memory: Budget::quarter_of(memory::limit_bytes()),
            answer_bytes: memory::answer_bytes_of(memory::limit_bytes()),
            public_url: "http://127.0.0.1:7171".to_owned(),
            masters: MasterKeys::derive(&secret),
            allow_private: Vec::new(),
            allow_hosts: None,
            allow_sockets: Vec::new(),
            http_proxy: None,
            own: Vec::new(),
            own_database: None,
            secret,
            settle_margin: Span::from_secs(60),
            history: Span::from_secs(90 * 86_400),
            archive: None,
            archive_keep: None,
            audit_keep: None,
            person_tokens: Span::from_secs(30 * 86_400),
            archive_ended: false,
            resources: Arc::new(NoResources),
            state_dir: None,
        }
    }
}
