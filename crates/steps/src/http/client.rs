//! HTTP clients: one pair for most destinations, one more for each that has certificates.
//!
//! The kernel keeps sending what a process handed to it, even when the process is gone. So that
//! nothing of a request arrives long after its timeout, a socket gives up on bytes that stay
//! unacknowledged for as long as the request may take. The bound belongs to the client, so there is
//! a pair for each of a few bounds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::{Certificate, Client, ClientBuilder, Identity, Proxy};
use semel_model::connection::{HttpAuth, HttpTarget};
use semel_model::{Fault, SecretText};

use super::{connect, resolve};
use crate::destination::Destination;
use crate::egress::Egress;
use crate::gate::SendGate;

/// How long a connection may take to stand.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// How long an unused connection is kept. Shorter than the five seconds after which common servers
/// close theirs, so that a request rarely meets a connection that is being closed.
const IDLE_MAX: Duration = Duration::from_secs(4);

/// The most destinations with certificates whose clients are kept.
const KEPT_MAX: usize = 256;

/// What most requests may take.
const USUAL_TIMEOUT: Duration = Duration::from_secs(30);

/// For how many seconds sent bytes may stay unacknowledged, smallest first. A request gets the
/// longest that its timeout allows.
const WIRE_SECS: [u64; 14] = [1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600];

/// Which connections a request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// One that was used before: for what may be repeated.
    Shared,
    /// One of its own: a kept connection that closes at the wrong moment would leave a doubt that
    /// only a person can settle.
    Fresh,
}

/// The HTTP client could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up the HTTP client")]
pub struct SetupError(#[from] reqwest::Error);

/// Every client of one gate.
pub(super) struct Clients {
    gate: Arc<dyn SendGate>,
    egress: Arc<Egress>,
    usual: Mutex<HashMap<Duration, Pair>>,
    own: Mutex<HashMap<Own, (i64, Pair)>>,
}

/// Namespace, name and bound of a destination with certificates.
type Own = (i32, String, Duration);

#[derive(Clone)]
struct Pair {
    shared: Client,
    fresh: Client,
}

impl Pair {
    fn pick(&self, pooling: Pooling) -> Client {
        match pooling {
            Pooling::Shared => self.shared.clone(),
            Pooling::Fresh => self.fresh.clone(),
        }
    }
}

impl Clients {
    pub(super) fn new(gate: Arc<dyn SendGate>, egress: Arc<Egress>) -> Result<Self, SetupError> {
        let bound = wire_patience(USUAL_TIMEOUT);
        let usual = build(&gate, &egress, bound, |builder| builder)?;
        Ok(Self {
            gate,
            egress,
            usual: Mutex::new(HashMap::from([(bound, usual)])),
            own: Mutex::default(),
        })
    }

    /// The client for whatever has no certificates of its own, for a request that may take so long.
    pub(super) fn usual(&self, pooling: Pooling, timeout: Duration) -> Result<Client, Fault> {
        let bound = wire_patience(timeout);
        let mut usual = self.usual.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pair) = usual.get(&bound) {
            return Ok(pair.pick(pooling));
        }
        let built = build(&self.gate, &self.egress, bound, |builder| builder);
        let pair = built.map_err(|error| Fault::passing("no-connection", error.to_string()))?;
        let client = pair.pick(pooling);
        usual.insert(bound, pair);
        Ok(client)
    }

    /// The client for a destination, with its certificates.
    pub(super) fn of(
        &self,
        to: &Destination,
        target: &HttpTarget,
        pooling: Pooling,
        timeout: Duration,
    ) -> Result<Client, Fault> {
        let identity = match &target.auth {
            HttpAuth::Mtls {
                certificate,
                secret,
            } => Some((certificate, to.secret(secret)?)),
            HttpAuth::None
            | HttpAuth::Bearer { .. }
            | HttpAuth::Basic { .. }
            | HttpAuth::Header { .. }
            | HttpAuth::Oauth2 { .. } => None,
        };
        if identity.is_none() && target.trust.is_none() {
            return self.usual(pooling, timeout);
        }
        let bound = wire_patience(timeout);
        let name = (to.namespace_id, to.name.clone(), bound);
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((version, pair)) = own.get(&name)
            && *version == to.version
        {
            return Ok(pair.pick(pooling));
        }
        let pair = self.build_own(to, target, identity, bound)?;
        if own.len() >= KEPT_MAX {
            // A client that is still used comes back at the price of one handshake.
            own.clear();
        }
        own.insert(name, (to.version, pair.clone()));
        Ok(pair.pick(pooling))
    }

    fn build_own(
        &self,
        to: &Destination,
        target: &HttpTarget,
        identity: Option<(&String, &SecretText)>,
        bound: Duration,
    ) -> Result<Pair, Fault> {
        let unfit = |what: &str| {
            let message = format!("the {what} of the connection `{}` is not PEM", to.name);
            Fault::permanent("connection-invalid", message)
        };
        let trust = target.trust.as_deref().unwrap_or_default();
        let trusted = Certificate::from_pem_bundle(trust.as_bytes());
        let trusted = trusted.map_err(|_| unfit("`trust`"))?;
        let identity = match identity {
            Some((certificate, key)) => {
                let pem = SecretText::new(format!("{certificate}\n{}\n", key.reveal()));
                let identity = Identity::from_pem(pem.reveal().as_bytes());
                Some(identity.map_err(|_| unfit("certificate or its key"))?)
            }
            None => None,
        };
        let pair = build(&self.gate, &self.egress, bound, |builder| {
            let builder = builder.tls_certs_merge(trusted.clone());
            match &identity {
                Some(identity) => builder.identity(identity.clone()),
                None => builder,
            }
        });
        pair.map_err(|_| unfit("certificate, its key, or `trust`"))
    }
}

/// How long bytes of a request that may take so long may stay unacknowledged.
fn wire_patience(timeout: Duration) -> Duration {
    let fits = |secs: &&u64| **secs <= timeout.as_secs();
    let secs = WIRE_SECS.iter().rev().find(fits).unwrap_or(&WIRE_SECS[0]);
    Duration::from_secs(*secs)
}

fn build(
    gate: &Arc<dyn SendGate>,
    egress: &Arc<Egress>,
    bound: Duration,
    dress: impl Fn(ClientBuilder) -> ClientBuilder,
) -> Result<Pair, SetupError> {
    let build = |idle_max: usize| {
        let mut builder = Client::builder()
            .no_proxy()
            .no_gzip()
            .referer(false)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(CONNECT_PATIENCE)
            .tcp_user_timeout(bound)
            .pool_idle_timeout(IDLE_MAX)
            .pool_max_idle_per_host(idle_max)
            .user_agent(concat!("semel/", env!("CARGO_PKG_VERSION")))
            .dns_resolver(resolve::Checked::new(egress.clone()))
            .connector_layer(connect::GateLayer::new(gate.clone()));
        if let Some(proxy) = egress.proxy() {
            builder = builder.proxy(Proxy::all(proxy.clone())?);
        }
        dress(builder).build()
    };
    Ok(Pair {
        shared: build(usize::MAX)?,
        fresh: build(0)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_gives_up_no_later_than_the_request() {
        let patience = |secs| wire_patience(Duration::from_secs(secs)).as_secs();

        assert_eq!(patience(30), 30);
        assert_eq!(patience(44), 30);
        assert_eq!(patience(600), 600);
        assert_eq!(patience(3_600), 600);
        assert_eq!(wire_patience(Duration::from_millis(50)).as_secs(), 1);
    }
}
