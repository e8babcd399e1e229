//! HTTP clients: in each namespace a pair for each of a few timeouts, and another for each destination that has
//! certificates.
//!
//! A client has connections of its own. An HTTP/2 connection carries only so many exchanges at once, so that a
//! namespace whose exchanges hang must not share one with another.
//!
//! The kernel keeps sending what a process handed to it, even when the process is gone. So that
//! nothing of a request arrives long after its timeout, a socket gives up on bytes that stay
//! unacknowledged for as long as the request may take. The bound belongs to the client, so there is
//! a pair for each of a few bounds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use semel_model::connection::{HttpAuth, HttpTarget};
use semel_model::{Fault, SecretText};
use tower::BoxError;

use super::client::Client;
use super::connect::{Connector, Proxy, Versions};
use crate::destination::{Destination, Identity};
use crate::egress::Egress;
use crate::gate::SendGate;
use crate::tls;

/// The most pairs that are kept for whatever has no certificates.
const USUAL_MAX: usize = 1_024;

/// The most destinations with certificates whose clients are kept.
const KEPT_MAX: usize = 256;

/// For how many seconds sent bytes may stay unacknowledged, smallest first. A request gets the
/// longest that its timeout allows, and at least one second.
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
pub struct SetupError(#[source] BoxError);

impl SetupError {
    pub(crate) fn new(error: impl Into<BoxError>) -> Self {
        Self(error.into())
    }
}

/// Every client of one gate.
pub(super) struct Clients {
    gate: Arc<dyn SendGate>,
    egress: Arc<Egress>,
    proxy: Option<Proxy>,
    /// What the system trusts.
    tls: Arc<ClientConfig>,
    /// By namespace and bound.
    usual: Mutex<HashMap<(i32, Duration), Pair>>,
    own: Mutex<HashMap<Own, (Identity, Pair)>>,
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
        let tls = tls::trusting(Vec::new()).map_err(SetupError::new)?;
        let tls = Arc::new(tls.with_no_client_auth());
        let proxy = match egress.proxy() {
            Some(address) => {
                let unusable = || SetupError::new("the address of the proxy cannot be used");
                Some(Proxy::new(address, tls.clone()).ok_or_else(unusable)?)
            }
            None => None,
        };
        Ok(Self {
            gate,
            egress,
            proxy,
            tls,
            usual: Mutex::default(),
            own: Mutex::default(),
        })
    }

    /// A namespace's client for whatever has no certificates of its own, for a request that may take so long.
    pub(super) fn usual(&self, namespace_id: i32, pooling: Pooling, timeout: Duration) -> Client {
        let key = (namespace_id, wire_patience(timeout));
        let mut usual = lock(&self.usual);
        if let Some(pair) = usual.get(&key) {
            return pair.pick(pooling);
        }
        if usual.len() >= USUAL_MAX {
            // A client that is still used comes back at the price of one handshake.
            usual.clear();
        }
        let pair = self.build(key, &self.tls, Versions::Both);
        usual.entry(key).or_insert(pair).pick(pooling)
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
            return Ok(self.usual(to.namespace_id, pooling, timeout));
        }
        let bound = wire_patience(timeout);
        let name = (to.namespace_id, to.name.clone(), bound);
        let mut own = lock(&self.own);
        if let Some((identity, pair)) = own.get(&name)
            && *identity == to.identity()
        {
            return Ok(pair.pick(pooling));
        }
        let pair = self.build_own(to, target, identity, bound)?;
        if own.len() >= KEPT_MAX {
            // A client that is still used comes back at the price of one handshake.
            own.clear();
        }
        own.insert(name, (to.identity(), pair.clone()));
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
            let message = format!("the connection `{}`: {what}", to.name);
            Fault::permanent("connection-invalid", message)
        };
        let no_certificate = |_| unfit("its certificate or `trust` is not PEM");
        let trusted = match &target.trust {
            Some(trust) => tls::read_certificates(trust).map_err(no_certificate)?,
            None => Vec::new(),
        };
        let config = tls::trusting(trusted).map_err(|_| unfit("its `trust` cannot be used"))?;
        let config = match identity {
            Some((certificate, key)) => {
                let chain = tls::read_certificates(certificate).map_err(no_certificate)?;
                let key = PrivateKeyDer::from_pem_slice(key.reveal().as_bytes());
                let key = key.map_err(|_| unfit("the key of its certificate is not PEM"))?;
                let config = config.with_client_auth_cert(chain, key);
                config.map_err(|_| unfit("its key does not belong to its certificate"))?
            }
            None => config.with_no_client_auth(),
        };
        // What an HTTP/2 connection says of a refused certificate does not reach us.
        let versions = match identity {
            Some(_) => Versions::First,
            None => Versions::Both,
        };
        Ok(self.build((to.namespace_id, bound), &config, versions))
    }

    fn build(
        &self,
        (namespace_id, bound): (i32, Duration),
        tls: &ClientConfig,
        shared: Versions,
    ) -> Pair {
        let proxy = self.proxy.as_ref();
        let client = |versions, idle_max| {
            let (gate, tls) = (self.gate.clone(), (tls, versions));
            let egress = (&self.egress, namespace_id);
            let connector = Connector::new(gate, egress, proxy, tls, bound);
            Client::new(connector, proxy.and_then(Proxy::auth).cloned(), idle_max)
        };
        Pair {
            shared: client(shared, usize::MAX),
            fresh: client(Versions::First, 0),
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long bytes of a request that may take so long may stay unacknowledged.
fn wire_patience(timeout: Duration) -> Duration {
    let fits = |secs: &&u64| **secs <= timeout.as_secs();
    let secs = WIRE_SECS.iter().rev().find(fits).unwrap_or(&WIRE_SECS[0]);
    Duration::from_secs(*secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Open;

    impl SendGate for Open {
        fn is_open(&self) -> bool {
            true
        }
    }

    #[test]
    fn the_clients_of_many_namespaces_are_not_kept_for_ever() {
        let clients = Clients::new(Arc::new(Open), Arc::default()).unwrap();

        for namespace_id in (0..).take(USUAL_MAX + 1) {
            clients.usual(namespace_id, Pooling::Shared, Duration::from_secs(30));
        }

        assert_eq!(lock(&clients.usual).len(), 1);
    }

    #[test]
    fn the_kernel_gives_up_no_later_than_the_request_or_after_a_second() {
        let patience = |secs| wire_patience(Duration::from_secs(secs)).as_secs();

        assert_eq!(patience(30), 30);
        assert_eq!(patience(44), 30);
        assert_eq!(patience(600), 600);
        assert_eq!(patience(3_600), 600);
        assert_eq!(wire_patience(Duration::from_millis(50)).as_secs(), 1);
    }
}
