//! The stage of a rehearsal: what answers in place of the executors.
//!
//! A process that serves has none. Where there is one, [`Executors`](crate::Executors) hand it every
//! request, so that no socket is opened.

use futures_util::future::BoxFuture;
use semel_model::request::ExternalRequest;
use semel_model::{EffectId, Outcome};

use crate::executor::{Attempt, Route};

/// Answers for every destination.
pub trait DestinationStage: Send + Sync {
    /// Receives one attempt at an effect.
    fn perform<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Outcome>;

    /// Receives a request that changes nothing.
    fn read<'a>(&'a self, route: Route<'a>, request: &'a ExternalRequest)
    -> BoxFuture<'a, Outcome>;

    /// Says whether an effect left its marker.
    fn find_marker<'a>(
        &'a self,
        route: Route<'a>,
        request: &'a ExternalRequest,
        key: EffectId,
    ) -> BoxFuture<'a, Outcome>;
}
