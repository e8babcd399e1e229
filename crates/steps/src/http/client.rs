//! HTTP clients: one pair for most destinations, one more for each that has certificates.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::{Certificate, Client, ClientBuilder, Identity, Proxy};
use semel_model::connection::{HttpTarget, SignIn};
use semel_model::{Fault, SecretText};

use super::{Pooling, SetupError, connect, resolve};
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

/// Every client of one gate.
pub(super) struct Clients {
    gate: Arc<dyn SendGate>,
    egress: Arc<Egress>,
    usual: Pair,
    own: Mutex<HashMap<(i32, String), (i64, Pair)>>,
}

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
        let usual = build(&gate, &egress, |builder| builder)?;
        Ok(Self {
            gate,
            egress,
            usual,
            own: Mutex::default(),
        })
    }

    /// The client for whatever has no certificates of its own.
    pub(super) fn usual(&self, pooling: Pooling) -> Client {
        self.usual.pick(pooling)
    }

    /// The client for a destination, with its certificates.
    pub(super) fn of(
        &self,
        to: &Destination,
        target: &HttpTarget,
        pooling: Pooling,
    ) -> Result<Client, Fault> {
        let identity = match &target.sign_in {
            SignIn::Mtls {
                certificate,
                secret,
            } => Some((certificate, to.secret(secret)?)),
            SignIn::None
            | SignIn::Bearer { .. }
            | SignIn::Basic { .. }
            | SignIn::Header { .. }
            | SignIn::Oauth2 { .. } => None,
        };
        if identity.is_none() && target.trust.is_none() {
            return Ok(self.usual(pooling));
        }
        let name = (to.namespace_id, to.name.clone());
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((version, pair)) = own.get(&name)
            && *version == to.version
        {
            return Ok(pair.pick(pooling));
        }
        let pair = self.build_own(to, target, identity)?;
        if own.len() >= KEPT_MAX {
            // Whoever is still used comes back at the price of one handshake.
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
        let pair = build(&self.gate, &self.egress, |builder| {
            let builder = builder.tls_certs_merge(trusted.clone());
            match &identity {
                Some(identity) => builder.identity(identity.clone()),
                None => builder,
            }
        });
        pair.map_err(|_| unfit("certificate, its key, or `trust`"))
    }
}

fn build(
    gate: &Arc<dyn SendGate>,
    egress: &Arc<Egress>,
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
