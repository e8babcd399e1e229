//! Serving: connections in, requests to their routes, and an orderly end.
//!
//! The accept loop is our own because every wait for a client has a limit: for a head, a body, a
//! place among the connections, and for what it reads of a response. Only HTTP/1.1 is supported. Detecting the version means to wait for
//! a first byte without a limit, and an installation that wants HTTP/2 has a TLS proxy in front.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use semel_engine::Engine;
use semel_model::Networks;
use semel_rehearse::{Background, Rehearsals};
use semel_store::audit::origin::ActOrigin;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::app::Shared;
use crate::auth::Verified;
use crate::auth::failures::AuthFailures;
use crate::auth::peer_check::OutsideUses;
use crate::auth::signed_in::SignIns;
use crate::body_shares::BodyShares;
use crate::crowd::{Crowd, Member};
use crate::forwarded;
use crate::live::Live;
use crate::metrics;
use crate::oidc::Provider;
use crate::options::ServerOptions;
use crate::places::Places;
use crate::pulse::Pulse;
use crate::rate_limit::{Peer, RateLimits};
use crate::resources::{UPLOADS_EACH, UPLOADS_MAX};
use crate::respond::{HELD_RESPONSES_EACH, HELD_RESPONSES_MAX};
use crate::routes;
use crate::tasks::WAITING_EACH;
use crate::written::MustRead;

/// How long accepting rests when the system has no more descriptors to give.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// How many connections the admin listener serves at once.
const ADMIN_CONNECTIONS_MAX: usize = 64;

/// Why a server could not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The listener does not say where it listens.
    #[error("the listener cannot be used")]
    Listener(#[source] io::Error),
    /// The client for the identity provider cannot be set up.
    #[error("the identity provider cannot be used: {0}")]
    Provider(String),
}

/// Serves until `shutdown`, then lets requests finish. The engine is the caller's to shut down,
/// after this.
pub async fn serve(
    listener: TcpListener,
    engine: Engine,
    options: ServerOptions,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    serve_with_admin(listener, None, engine, options, shutdown).await
}

/// Serves, and has health and metrics without a token on a listener that only operators can reach.
pub async fn serve_with_admin(
    listener: TcpListener,
    admin: Option<TcpListener>,
    engine: Engine,
    options: ServerOptions,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    listener.local_addr().map_err(ServeError::Listener)?;
    let provider = options.oidc.clone().map(Provider::new).transpose();
    let provider = provider.map_err(ServeError::Provider)?;
    let people = engine.cell().for_people();
    let app = Arc::new(Shared {
        live: Live::new(people.clone(), shutdown.clone()),
        people,
        rehearsals: Rehearsals::new(engine.clone()),
        engine,
        options: options.clone(),
        verified: Verified::default(),
        sign_ins: SignIns::default(),
        outside: OutsideUses::default(),
        auth_failures: AuthFailures::default(),
        provider,
        edge: RateLimits::new(options.hook_rate),
        body_shares: BodyShares::new(&options.body_budget, options.body_bytes_max),
        hook_seconds: metrics::hook_histogram(),
        held_responses: Places::new(HELD_RESPONSES_MAX, HELD_RESPONSES_EACH),
        waiting_claims: Places::new(usize::MAX, WAITING_EACH),
        uploads: Places::new(UPLOADS_MAX, UPLOADS_EACH),
        pulse: Pulse::default(),
        shutdown: shutdown.clone(),
    });
    app.pulse.look(app.engine.cell(), true).await;
    let looking = {
        let (app, shutdown) = (app.clone(), shutdown.clone());
        async move { app.pulse.keep_looking(app.engine.cell(), &shutdown).await }
    };
    let proving = {
        let (app, shutdown) = (app.clone(), shutdown.clone());
        let background = Background {
            never_rehearsed: options.require_rehearsal,
            every: options.prove_every,
        };
        async move {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = app.rehearsals.keep_proving(background) => {}
            }
        }
    };
    let admin_router = routes::build_admin(app.clone());
    let watching = async {
        if let Some(admin) = admin {
            let max = ADMIN_CONNECTIONS_MAX;
            attend_all(admin, admin_router, &options, max, &shutdown).await;
        }
    };
    let max = options.connections_max;
    let serving = attend_all(listener, routes::build(app), &options, max, &shutdown);
    tokio::join!(serving, watching, looking, proving);
    Ok(())
}

/// Serves one listener until `shutdown`, then lets requests finish.
async fn attend_all(
    listener: TcpListener,
    router: Router,
    options: &ServerOptions,
    connections_max: usize,
    shutdown: &CancellationToken,
) {
    let trusted = Arc::new(options.trusted_proxies.clone());
    let server = Server {
        router,
        trusted: trusted.clone(),
        connections: protocol(options),
        write_patience: options.write_patience,
        graceful: GracefulShutdown::new(),
    };
    let places = Arc::new(Semaphore::new(connections_max));
    let crowd = Crowd::new(options.connections_per_source);
    while let Some((stream, peer, place)) = next(&listener, &places, shutdown).await {
        // A proxy brings the requests of all clients.
        let joined = match forwarded::is_trusted(&trusted, peer.ip()) {
            true => Some(Member::uncounted()),
            false => crowd.join(peer),
        };
        match joined {
            Some(member) => server.attend(stream, peer, (place, member)),
            None => tracing::debug!(%peer, "an address has too many connections"),
        }
    }
    drop(listener);
    server.drain(options.drain_patience).await;
}

struct Server {
    router: Router,
    trusted: Arc<Networks>,
    connections: auto::Builder<TokioExecutor>,
    write_patience: Duration,
    graceful: GracefulShutdown,
}

fn protocol(options: &ServerOptions) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(options.header_patience)
        .max_buf_size(options.header_bytes_max);
    builder
}

/// The next connection, once there is a place for it; nothing when the server shuts down.
async fn next(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    shutdown: &CancellationToken,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => return None,
            accepted = accept(listener, places) => accepted,
        };
        match accepted {
            Ok(accepted) => return Some(accepted),
            Err(error) if concerns_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections for a moment");
                tokio::time::sleep(ACCEPT_REST).await;
            }
        }
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await;
    let place = place.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, peer, place))
}

fn concerns_one_connection(error: &io::Error) -> bool {
    [
        io::ErrorKind::ConnectionAborted,
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::ConnectionRefused,
        io::ErrorKind::InvalidInput,
    ]
    .contains(&error.kind())
}

impl Server {
    /// Serves one connection in a task of its own, for as long as it lasts.
    fn attend(&self, stream: TcpStream, peer: SocketAddr, place: (OwnedSemaphorePermit, Member)) {
        let (router, trusted) = (self.router.clone(), self.trusted.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            let client = forwarded::client(&trusted, peer, request.headers());
            request.extensions_mut().insert(Peer(client));
            let origin = ActOrigin {
                token: None,
                address: Some(client.ip()),
            };
            origin.scope(answer(router.clone(), request))
        });
        let stream = MustRead::new(stream, self.write_patience);
        let connection = self
            .connections
            .serve_connection(TokioIo::new(stream), service)
            .into_owned();
        let connection = self.graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error, "a connection ended early");
            }
            drop(place);
        });
    }

    async fn drain(self, patience: Duration) {
        if tokio::time::timeout(patience, self.graceful.shutdown())
            .await
            .is_err()
        {
            tracing::warn!("cut off requests that did not finish in time");
        }
    }
}

async fn answer(router: Router, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return router.oneshot(request).await;
    }
    let began = Instant::now();
    let method = request.method().clone();
    let path = routes::loggable(request.uri()).to_owned();
    let response = router.oneshot(request).await?;
    tracing::debug!(
        %method,
        path,
        status = response.status().as_u16(),
        took_us = began.elapsed().as_micros() as u64,
        "answered"
    );
    Ok(response)
}
