//! One door for the engine: a call goes to the executor of its kind.
//!
//! Whatever the kind: the destination's limits are asked first and informed afterwards, and no
//! secret of the destination leaves with its answer.

use std::net::Ipv4Addr;
use std::sync::Arc;

use semel_model::request::Call;
use semel_model::{EffectId, Fault, Guard, Outcome};

use crate::db::DbCaller;
use crate::destination::Destination;
use crate::egress::Egress;
use crate::gate::SendGate;
use crate::http::{HttpCaller, Pooling, Route, SetupError, Tokens};
use crate::limits::Limits;
use crate::llm::LlmCaller;
use crate::notify::{Notifier, Parcel};
use crate::resources::{NoResources, ResourceStore};
use crate::ssh::SshCaller;

/// What all sessions of a process share. By default: public addresses, and no resources.
#[derive(Clone)]
pub struct Reach {
    /// Which addresses may be connected to.
    pub egress: Arc<Egress>,
    /// How much each destination may be asked.
    pub limits: Arc<Limits>,
    /// Tokens that were fetched to authenticate with.
    pub tokens: Arc<Tokens>,
    /// Where large bodies come from and go to.
    pub resources: Arc<dyn ResourceStore>,
}

impl Default for Reach {
    fn default() -> Self {
        Self {
            egress: Arc::default(),
            limits: Arc::default(),
            tokens: Arc::default(),
            resources: Arc::new(NoResources),
        }
    }
}

impl Reach {
    /// Public addresses, and those special ranges that the operator opened.
    #[must_use]
    pub fn new(egress: Egress) -> Self {
        Self {
            egress: Arc::new(egress),
            ..Self::default()
        }
    }

    /// With room for as many runs at once as the process has in hand.
    #[must_use]
    pub fn with_capacity(self, runs: usize) -> Self {
        Self {
            limits: Arc::new(Limits::for_capacity(runs)),
            ..self
        }
    }

    /// Every address there is: for tests and rehearsals, whose destinations are on this machine.
    #[must_use]
    pub fn open() -> Self {
        Self::new(Egress::open())
    }
}

/// One executor per kind of call, for as long as a session's gate is open.
#[derive(Clone)]
pub struct Executors {
    pub(crate) egress: Arc<Egress>,
    pub(crate) db: DbCaller,
    pub(crate) ssh: SshCaller,
    pub(crate) notifier: Notifier,
    limits: Arc<Limits>,
    http: HttpCaller,
    llm: LlmCaller,
}

/// One attempt at an effect.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    /// The namespace that owns it.
    pub namespace_id: i32,
    /// What is sent.
    pub call: &'a Call,
    /// Where it goes, where the call names a connection.
    pub to: Option<&'a Destination>,
    /// The effect's key.
    pub key: EffectId,
    /// How the effect is made safe.
    pub guard: Guard,
}

impl Executors {
    /// Executors that send only while the gate is open.
    ///
    /// # Errors
    ///
    /// If the system's TLS cannot be set up.
    pub fn new(gate: Arc<dyn SendGate>, reach: &Reach) -> Result<Self, SetupError> {
        let http = HttpCaller::new(gate.clone(), reach)?;
        Ok(Self {
            egress: reach.egress.clone(),
            limits: reach.limits.clone(),
            db: DbCaller::new(gate.clone(), reach),
            ssh: SshCaller::new(gate.clone(), reach),
            notifier: Notifier::new(gate, reach, http.clone()),
            llm: LlmCaller::new(http.clone()),
            http,
        })
    }

    /// Makes one attempt at an effect, as far as its destination has room for it.
    pub async fn perform(&self, attempt: Attempt<'_>) -> Outcome {
        let whose = Whose::of(attempt.namespace_id, attempt.to, attempt.call);
        self.within_limits(whose, self.send(attempt)).await
    }

    /// Makes a call that changes nothing, and may be made again, as far as its destination has
    /// room for it.
    pub async fn read(&self, route: Route<'_>, call: &Call) -> Outcome {
        let whose = Whose::of(route.namespace_id, route.to, call);
        self.within_limits(whose, self.ask(route, call)).await
    }

    /// Asks for the marker that a command left where it ran. Changes nothing.
    pub async fn find_marker(&self, route: Route<'_>, call: &Call, key: EffectId) -> Outcome {
        let asking = self.ask_marker(route.to, call, key);
        let whose = Whose::of(route.namespace_id, route.to, call);
        self.within_limits(whose, asking).await
    }

    /// Delivers bytes to a webhook as they are, signed, under a key that is the same on every try.
    pub async fn deliver(&self, parcel: Parcel<'_>, to: &Destination, key: EffectId) -> Outcome {
        let delivery = self.notifier.deliver(parcel, to, key);
        self.within_limits(Whose::Connection(to), delivery).await
    }

    async fn send(&self, attempt: Attempt<'_>) -> Outcome {
        let Attempt { call, to, key, .. } = attempt;
        match call {
            Call::Http(request) => {
                let route = Route {
                    namespace_id: attempt.namespace_id,
                    to,
                };
                let pooling = match attempt.guard {
                    Guard::Review | Guard::Probe => Pooling::Fresh,
                    Guard::Transaction | Guard::Key | Guard::Natural | Guard::Repeat => {
                        Pooling::Shared
                    }
                };
                self.http.perform(request, route, Some(key), pooling).await
            }
            Call::Db(request) => match named(call, to) {
                Ok(to) => self.db.perform(request, to, key).await,
                Err(fault) => Outcome::Failed(fault),
            },
            Call::Ssh(request) => match named(call, to) {
                Ok(to) => self.ssh.perform(request, to, key).await,
                Err(fault) => Outcome::Failed(fault),
            },
            Call::Notify(message) => match named(call, to) {
                Ok(to) => self.notifier.perform(message, to, key).await,
                Err(fault) => Outcome::Failed(fault),
            },
            Call::Kv(_)
            | Call::Llm(_)
            | Call::Persist(_)
            | Call::Emit(_)
            | Call::Start(_)
            | Call::Task(_) => Outcome::Failed(no_executor(call)),
        }
    }

    async fn ask(&self, route: Route<'_>, call: &Call) -> Outcome {
        match call {
            Call::Http(request) => {
                let pooling = Pooling::Shared;
                self.http.perform(request, route, None, pooling).await
            }
            Call::Db(request) => match named(call, route.to) {
                Ok(to) => self.db.read(request, to).await,
                Err(fault) => Outcome::Failed(fault),
            },
            Call::Llm(request) => match named(call, route.to) {
                Ok(to) => self.llm.ask(request, to).await,
                Err(fault) => Outcome::Failed(fault),
            },
            Call::Kv(_)
            | Call::Ssh(_)
            | Call::Notify(_)
            | Call::Persist(_)
            | Call::Emit(_)
            | Call::Start(_)
            | Call::Task(_) => Outcome::Failed(no_executor(call)),
        }
    }

    async fn ask_marker(&self, to: Option<&Destination>, call: &Call, key: EffectId) -> Outcome {
        match call {
            Call::Ssh(request) => match named(call, to) {
                Ok(to) => self.ssh.probe(request, to, key).await,
                Err(fault) => Outcome::Failed(fault),
            },
            Call::Http(_)
            | Call::Kv(_)
            | Call::Db(_)
            | Call::Notify(_)
            | Call::Llm(_)
            | Call::Persist(_)
            | Call::Emit(_)
            | Call::Start(_)
            | Call::Task(_) => Outcome::Failed(no_executor(call)),
        }
    }

    /// Makes an exchange where the destination has room, and tells its breaker how it went.
    async fn within_limits(
        &self,
        whose: Whose<'_>,
        exchange: impl Future<Output = Outcome>,
    ) -> Outcome {
        let (permit, to) = match whose {
            Whose::Connection(to) => (self.limits.enter(to).await, Some(to)),
            Whose::Host(namespace_id, host) => {
                (self.limits.enter_host(namespace_id, host).await, None)
            }
            Whose::Nobody => return exchange.await,
        };
        let outcome = match permit {
            Ok(permit) => {
                let outcome = exchange.await;
                permit.outcome(&outcome);
                outcome
            }
            Err(fault) => return Outcome::Failed(fault),
        };
        match to {
            Some(to) => to.redactor().redact(outcome),
            None => outcome,
        }
    }
}

/// Whose limits an exchange counts against.
enum Whose<'a> {
    /// Those of a connection.
    Connection(&'a Destination),
    /// Those that a namespace has for a host and port that is called without a connection.
    Host(i32, String),
    /// Of no destination: nothing is sent.
    Nobody,
}

impl<'a> Whose<'a> {
    fn of(namespace_id: i32, to: Option<&'a Destination>, call: &Call) -> Self {
        match (to, call) {
            (Some(to), _) => Self::Connection(to),
            (None, Call::Http(request)) => match host(&request.url) {
                Some(host) => Self::Host(namespace_id, host),
                None => Self::Nobody,
            },
            (
                None,
                Call::Kv(_)
                | Call::Db(_)
                | Call::Ssh(_)
                | Call::Notify(_)
                | Call::Llm(_)
                | Call::Persist(_)
                | Call::Emit(_)
                | Call::Start(_)
                | Call::Task(_),
            ) => Self::Nobody,
        }
    }
}

/// The host and port of an address; nothing if the address is none. What is spelled plainly is
/// not parsed twice.
fn host(url: &str) -> Option<String> {
    if let Some(host) = plain_host(url) {
        return Some(host);
    }
    let url = reqwest::Url::parse(url).ok()?;
    let port = url.port_or_known_default().unwrap_or_default();
    Some(format!("{}:{port}", url.host_str()?))
}

/// The same for an address that spells its host as a parser would write it.
fn plain_host(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next()?;
    let (name, port) = match host.split_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (host, None),
    };
    let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-');
    // A last part of digits may be another spelling of an address, and two hyphens of another script.
    let last = name.rsplit('.').next()?;
    let is_name = last.starts_with(|first: char| first.is_ascii_lowercase());
    let is_host = is_name || name.parse::<Ipv4Addr>().is_ok();
    if !is_host || name.contains("--") || !name.bytes().all(is_plain) {
        return None;
    }
    match (scheme, port) {
        (_, Some(port)) => {
            let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
            (is_port && !port.is_empty() && !port.starts_with('0')).then(|| host.to_owned())
        }
        ("https", None) => Some(format!("{name}:443")),
        ("http", None) => Some(format!("{name}:80")),
        _ => None,
    }
}

/// The destination of a call that cannot do without one.
fn named<'a>(call: &Call, to: Option<&'a Destination>) -> Result<&'a Destination, Fault> {
    to.ok_or_else(|| {
        let name = call.connection().unwrap_or_default();
        let message = format!("there is no connection `{name}`: semel connection create {name}");
        Fault::passing("connection-missing", message)
    })
}

/// The engine performs these itself.
fn no_executor(call: &Call) -> Fault {
    let message = format!("`{}` is not performed here", call.kind());
    Fault::permanent("no-executor", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_the_same_however_it_is_spelled() {
        let parsed = |text: &str| {
            let url = reqwest::Url::parse(text).unwrap();
            let port = url.port_or_known_default().unwrap();
            format!("{}:{port}", url.host_str().unwrap())
        };

        for url in [
            "http://127.0.0.1:9/a",
            "http://127.1:9/a",
            "http://0x7f.0.0.1:9/",
            "http://0x7f000001:9/",
            "http://2130706433:9",
            "https://api.example.com/v1?a=b:c",
            "https://api.example.com:443/v1",
            "http://api.example.com#x",
            "https://API.example.com/v1",
            "https://u:p@api.example.com/v1",
            "https://xn--bcher-kva.example/x",
            "https://bücher.example:08/x",
            "http://a.example.:80/",
            "http://[::1]:80/",
            "http://a.0x1:1/",
        ] {
            match reqwest::Url::parse(url) {
                Ok(_) => assert_eq!(host(url).as_deref(), Some(parsed(url).as_str()), "{url}"),
                Err(_) => assert_eq!(host(url), None, "{url}"),
            }
        }
        assert_eq!(host("nonsense"), None);
    }
}
