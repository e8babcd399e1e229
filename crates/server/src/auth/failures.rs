//! Failed authentication by token: counted by reason, and logged where a token that once worked is presented
//! with its right secret.
//!
//! The caller is told nothing of the reason: the answer is the same for all (`unauthorized`), and 429 for an
//! address that fails again and again. A token that works is never refused for that.

use std::num::NonZeroU32;

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use semel_model::TokenId;
use semel_store::ReadError;
use semel_store::tokens::TokenEnd;
use uuid::Uuid;

use crate::error::ApiError;
use crate::rate_limit::Peer;

/// How often the log says of one token that it is used although it has ended, in a minute.
const LOGGED_BY_TOKEN: NonZeroU32 = NonZeroU32::new(1).unwrap();

/// The label of the counter.
type ByReason = [(&'static str, &'static str); 1];

/// Why a request is not let in.
pub(crate) enum AuthError {
    /// Its token opens nothing.
    Failed(AuthFailure),
    /// Whether its token opens anything could not be found out.
    Undecided(ApiError),
}

impl From<ReadError> for AuthError {
    fn from(error: ReadError) -> Self {
        Self::Undecided(error.into())
    }
}

impl From<AuthFailure> for AuthError {
    fn from(failure: AuthFailure) -> Self {
        Self::Failed(failure)
    }
}

/// Why a token opens nothing.
pub(crate) enum AuthFailure {
    /// There is no `Authorization: Bearer`.
    Missing,
    /// The text cannot be a token.
    Malformed,
    /// No token has this identity.
    Unknown,
    /// A token has this identity, and another secret.
    WrongSecret,
    /// It is the token, which no longer works.
    Ended {
        id: TokenId,
        name: String,
        end: TokenEnd,
    },
    /// It is the token, used from outside its networks.
    Outside,
}

impl AuthFailure {
    const WORDS: [&'static str; 7] = [
        "missing",
        "malformed",
        "unknown",
        "wrong-secret",
        "revoked",
        "expired",
        "network",
    ];

    fn as_str(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::Unknown => "unknown",
            Self::WrongSecret => "wrong-secret",
            Self::Ended {
                end: TokenEnd::Revoked,
                ..
            } => "revoked",
            Self::Ended {
                end: TokenEnd::Expired,
                ..
            } => "expired",
            Self::Outside => "network",
        }
    }

    /// Whether something was presented that could have been a token: who presents nothing guesses nothing.
    pub(crate) fn is_a_try(&self) -> bool {
        !matches!(self, Self::Missing)
    }
}

/// Failed authentications of one server.
pub(crate) struct AuthFailures {
    counted: Family<ByReason, Counter>,
    /// By token. Only who has its secret gets as far as this, so there are few.
    logged: DefaultKeyedRateLimiter<Uuid>,
}

impl Default for AuthFailures {
    fn default() -> Self {
        let counted = Family::<ByReason, Counter>::default();
        for word in AuthFailure::WORDS {
            // Every reason is shown from the beginning, so that its first failure is an increase.
            drop(counted.get_or_create(&[("reason", word)]));
        }
        Self {
            counted,
            logged: RateLimiter::keyed(Quota::per_minute(LOGGED_BY_TOKEN)),
        }
    }
}

impl AuthFailures {
    /// How many there were, by reason.
    pub(crate) fn counts(&self) -> Family<ByReason, Counter> {
        self.counted.clone()
    }

    /// Counts a failure, and logs a token that has ended now and then: its holder, or a thief, still has it.
    pub(crate) fn note(&self, failure: &AuthFailure, peer: Option<Peer>) {
        let reason = failure.as_str();
        self.counted.get_or_create(&[("reason", reason)]).inc();
        if let AuthFailure::Ended { id, name, .. } = failure
            && self.logged.check_key(id.as_uuid()).is_ok()
        {
            let peer = peer.map(|peer| peer.0.ip().to_canonical().to_string());
            tracing::warn!(token.id = %id, name, peer, reason, "a token was used that no longer works");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_word_and_its_count() {
        let ended = |end| AuthFailure::Ended {
            id: TokenId::from_uuid(Uuid::nil()),
            name: "t".to_owned(),
            end,
        };
        let failures = AuthFailures::default();

        for (failure, word) in [
            AuthFailure::Missing,
            AuthFailure::Malformed,
            AuthFailure::Unknown,
            AuthFailure::WrongSecret,
            ended(TokenEnd::Revoked),
            ended(TokenEnd::Expired),
            AuthFailure::Outside,
        ]
        .iter()
        .zip(AuthFailure::WORDS)
        {
            failures.note(failure, None);
            assert_eq!(failure.as_str(), word);
            assert_eq!(
                failures.counts().get_or_create(&[("reason", word)]).get(),
                1
            );
        }
    }
}
