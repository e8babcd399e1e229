//! What every request can reach.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use prometheus_client::metrics::histogram::Histogram;
use semel_engine::Engine;
use semel_model::TokenId;
use semel_rehearse::Rehearsals;
use semel_store::Cell;
use tokio_util::sync::CancellationToken;

use crate::auth::failures::AuthFailures;
use crate::auth::peer_check::{OutsideUses, PeerCheck};
use crate::auth::signed_in::{SignIns, SignedIn};
use crate::auth::{Caller, Verified};
use crate::body_shares::BodyShares;
use crate::error::ApiError;
use crate::live::Live;
use crate::oidc::Provider;
use crate::options::ServerOptions;
use crate::places::Places;
use crate::pulse::Pulse;
use crate::rate_limit::{Peer, RateLimits};

/// What every request can reach; cheap to clone.
pub(crate) type App = Arc<Shared>;

/// One per server.
pub(crate) struct Shared {
    /// What moves runs forward.
    pub(crate) engine: Engine,
    /// Rehearsals of releases, one at a time.
    pub(crate) rehearsals: Rehearsals,
    /// What the operator chose.
    pub(crate) options: ServerOptions,
    /// Tokens that were verified a moment ago.
    pub(crate) verified: Verified,
    /// Sign-ins that were looked up a moment ago.
    pub(crate) sign_ins: SignIns,
    /// Uses of tokens from outside their networks.
    pub(crate) outside: OutsideUses,
    /// Failed authentications by token.
    pub(crate) auth_failures: AuthFailures,
    /// The identity provider that signs people in, where there is one.
    pub(crate) provider: Option<Provider>,
    /// How much is admitted.
    pub(crate) edge: RateLimits,
    /// How much of the memory for bodies each source may hold.
    pub(crate) body_shares: BodyShares,
    /// How long deliveries to hooks take, from the whole body to the answer.
    pub(crate) hook_seconds: Histogram,
    /// Places for responses that are held until a run ends, of all namespaces and of each.
    pub(crate) held_responses: Places<String>,
    /// Places for claims that wait for tasks, of each token.
    pub(crate) waiting_claims: Places<TokenId>,
    /// Places for uploads, each of which takes some MiB of memory, of all namespaces and of each.
    pub(crate) uploads: Places<i32>,
    /// What is known of the database without asking.
    pub(crate) pulse: Pulse,
    /// What pages follow.
    pub(crate) live: Arc<Live>,
    /// The database as requests read from it.
    pub(crate) people: Cell,
    /// Ends long waits when the server shuts down.
    pub(crate) shutdown: CancellationToken,
}

impl Shared {
    /// Where requests read: a pool of their own, which can change nothing.
    pub(crate) fn cell(&self) -> &Cell {
        &self.people
    }

    /// Compares where a request comes from with the networks of its token.
    pub(crate) fn check_peer(&self, peer: Option<Peer>) -> PeerCheck<'_> {
        PeerCheck::new(peer, &self.outside)
    }
}

/// The caller that was checked on the way to the handler.
impl FromRequestParts<App> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        let checked = parts.extensions.remove::<Self>();
        checked.ok_or_else(|| ApiError::internal("a route without a token asks for its holder"))
    }
}

/// The browser that was checked on the way to the handler.
impl FromRequestParts<App> for SignedIn {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        let checked = parts.extensions.get::<Self>().cloned();
        checked.ok_or_else(|| ApiError::internal("a route without a sign-in asks for its holder"))
    }
}
