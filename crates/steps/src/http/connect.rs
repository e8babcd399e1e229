//! Connections: to a checked address or through the proxy, and with TLS where the address says so.
//!
//! ```text
//! direct      ─▶ checked address ──────────────────────────────▶ TLS, for https ─▶ gate
//! by a proxy  ─▶ the proxy ─▶ its own TLS ─▶ tunnel, for https ─▶ TLS, for https ─▶ gate
//! ```
//!
//! The gate is asked once a connection stands, before the first byte of a request.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper::header::{HeaderMap, HeaderValue, USER_AGENT};
use hyper::http::uri::Scheme;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tower::{BoxError, Service};
use url::Url;

use super::client::NAME;
use super::resolve::{AddressRefused, Checked};
use super::send_state::SENDING;
use crate::egress::Egress;
use crate::failpoint::failpoint;
use crate::gate::SendGate;

/// How long a connection may take to stand.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// How long a silent connection is left alone, and then between two questions whether it still stands.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// How many such questions may stay unanswered.
const KEEPALIVE_RETRIES: u32 = 3;

type Connecting<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

/// To a destination or to the proxy, whose address may be https.
type Wire = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Makes the connections of one client.
#[derive(Clone)]
pub(super) struct Connector {
    secure: HttpsConnector<Transport>,
    egress: Arc<Egress>,
    gate: Arc<dyn SendGate>,
}

/// Which versions of HTTP a destination is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Versions {
    /// The first alone: one request at a time, whose last byte the gate holds in its own hands, and whose refusal the
    /// connection tells in full.
    First,
    /// The second, where the destination speaks it, and the first.
    Both,
}

impl Versions {
    fn protocols(self) -> Vec<Vec<u8>> {
        let (first, second) = (b"http/1.1".to_vec(), b"h2".to_vec());
        match self {
            Self::First => vec![first],
            Self::Both => vec![second, first],
        }
    }
}

impl Connector {
    /// `wire_patience` is how long sent bytes may stay unacknowledged.
    pub(super) fn new(
        gate: Arc<dyn SendGate>,
        (egress, namespace_id): (&Arc<Egress>, i32),
        proxy: Option<&Proxy>,
        (tls, versions): (&ClientConfig, Versions),
        wire_patience: Duration,
    ) -> Self {
        let mut plain =
            HttpConnector::new_with_resolver(Checked::new(egress.clone(), namespace_id));
        plain.enforce_http(false);
        plain.set_nodelay(true);
        // Divided among the addresses of a name, so that a dead one leaves time for the next. The whole, with
        // tunnel and TLS, is bounded in `call`.
        plain.set_connect_timeout(Some(CONNECT_PATIENCE));
        plain.set_keepalive(Some(KEEPALIVE));
        plain.set_keepalive_interval(Some(KEEPALIVE));
        plain.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
        plain.set_tcp_user_timeout(Some(wire_patience));
        let proxied = proxy.map(|proxy| Proxied::new(proxy, plain.clone()));
        // Offered to the destination alone: a proxy that chose h2 could not be asked for a tunnel.
        let mut tls = tls.clone();
        tls.alpn_protocols = versions.protocols();
        Self {
            secure: HttpsConnector::from((Transport { plain, proxied }, tls)),
            egress: egress.clone(),
            gate,
        }
    }
}

impl Connector {
    /// Checks what stands in the address itself, for everybody who wants a connection: a literal never reaches the
    /// resolver, and a proxy resolves names itself.
    fn check(&self, to: &Uri) -> Result<(), AddressRefused> {
        let usual = if to.scheme() == Some(&Scheme::HTTPS) {
            443
        } else {
            80
        };
        let (host, port) = (
            to.host().unwrap_or_default(),
            to.port_u16().unwrap_or(usual),
        );
        let checked = self.egress.check_host(host, port);
        checked.map(|_| ()).map_err(AddressRefused)
    }
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TransportStream>;
    type Error = BoxError;
    type Future = Connecting<Self::Response>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.secure.poll_ready(context)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        if let Err(refused) = self.check(&to) {
            return Box::pin(async move { Err(refused.into()) });
        }
        let connecting = self.secure.call(to);
        let gate = self.gate.clone();
        let sending_state = SENDING.try_with(Arc::clone).ok();
        Box::pin(async move {
            let connected = tokio::time::timeout(CONNECT_PATIENCE, connecting).await;
            let connection = connected
                .map_err(|_| format!("no connection within {} s", CONNECT_PATIENCE.as_secs()))??;
            failpoint("send.connected", "").await;
            if !gate.is_open() {
                return Err("the lease ran out before anything was sent".into());
            }
            match sending_state.is_none_or(|sending_state| sending_state.connected()) {
                true => Ok(connection),
                false => Err("it took too long, and nothing was sent".into()),
            }
        })
    }
}

/// Makes the TCP connection, or the proxy's tunnel, that TLS to the destination runs over.
#[derive(Clone)]
struct Transport {
    plain: HttpConnector<Checked>,
    proxied: Option<Proxied>,
}

/// The proxy that requests go through.
#[derive(Clone)]
pub(super) struct Proxy {
    at: Intercept,
    tls: Arc<ClientConfig>,
}

impl Proxy {
    /// The proxy is the operator's: what a connection trusts or shows of itself is not for it, so `tls` is this
    /// machine's. Nothing where the address is none.
    pub(super) fn new(address: &Url, tls: Arc<ClientConfig>) -> Option<Self> {
        // The matcher reads user and password out of an address, as `Proxy-Authorization` wants them.
        let matcher = Matcher::builder().all(address.as_str()).build();
        let at = matcher.intercept(&Uri::from_static("http://destination.invalid"))?;
        Some(Self { at, tls })
    }

    /// What opens it, where it asks for that.
    pub(super) fn auth(&self) -> Option<&HeaderValue> {
        self.at.basic_auth()
    }
}

/// How the proxy is reached.
#[derive(Clone)]
struct Proxied {
    at: Uri,
    connector: HttpsConnector<HttpConnector<Checked>>,
    tunnel: Tunnel<HttpsConnector<HttpConnector<Checked>>>,
}

impl Proxied {
    fn new(proxy: &Proxy, plain: HttpConnector<Checked>) -> Self {
        let at = proxy.at.uri().clone();
        let connector = HttpsConnector::from((plain, proxy.tls.clone()));
        let named = HeaderMap::from_iter([(USER_AGENT, NAME)]);
        let mut tunnel = Tunnel::new(at.clone(), connector.clone()).with_headers(named);
        if let Some(auth) = proxy.auth() {
            tunnel = tunnel.with_auth(auth.clone());
        }
        Self {
            at,
            connector,
            tunnel,
        }
    }
}

impl Service<Uri> for Transport {
    type Response = TransportStream;
    type Error = BoxError;
    type Future = Connecting<TransportStream>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.plain.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let stream = |wire, through_proxy| TransportStream {
            wire,
            through_proxy,
        };
        match &mut self.proxied {
            None => {
                let connecting = self.plain.call(to);
                Box::pin(async move {
                    let wire = MaybeHttpsStream::Http(connecting.await?);
                    Ok(stream(wire, false))
                })
            }
            Some(proxied) if to.scheme() == Some(&Scheme::HTTPS) => {
                let connecting = proxied.tunnel.call(to);
                Box::pin(async move { Ok(stream(connecting.await?, false)) })
            }
            Some(proxied) => {
                let connecting = proxied.connector.call(proxied.at.clone());
                Box::pin(async move { Ok(stream(connecting.await?, true)) })
            }
        }
    }
}

/// The TCP connection, or the proxy's tunnel, that TLS to the destination runs over.
pub(super) struct TransportStream {
    wire: Wire,
    /// Whether the other end is a proxy that reads the requests.
    through_proxy: bool,
}

impl Connection for TransportStream {
    fn connected(&self) -> Connected {
        self.wire.connected().proxy(self.through_proxy)
    }
}

impl Read for TransportStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().wire).poll_read(context, buffer)
    }
}

impl Write for TransportStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().wire).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().wire).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().wire).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().wire).poll_write_vectored(context, slices)
    }
}
