//! Landing: how long after its intent a request may still arrive and be acted on.
//!
//! ```text
//! intent ── lease ── timeout ── acts_within ─▶ landed
//!           │        │          └ the destination works on after the exchange has ended
//!           │        └ the exchange itself; the kernel stops sending with it
//!           └ a worker that was paused may still begin to send
//! ```
//!
//! Before that time, neither a probe that finds nothing nor an operator may say that an effect did
//! not happen. Semel cannot know what a destination does later than that.

use jiff::Timestamp;
use semel_model::request::StepRequest;
use semel_model::{Connection, Span};

use crate::state::PendingEffect;

/// How long a request may take to land, apart from its own timeout.
#[derive(Clone, Copy, Debug, Default)]
pub struct Landing {
    /// How long a paused worker may still begin to send.
    pub lease: Span,
    /// How long a destination may still act where its connection does not say.
    pub acts_within: Span,
}

/// When nothing of a request can land any more, and what that is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LandingWindow {
    /// When.
    pub over: Timestamp,
    /// How long a paused worker may still begin to send.
    pub lease: Span,
    /// How long the exchange itself may take.
    pub timeout: Span,
    /// How long the destination may still act after it.
    pub acts_within: Span,
}

impl Landing {
    /// From when on nothing of the latest attempt can land any more.
    pub fn over(
        &self,
        pending: &PendingEffect,
        connection: Option<&Connection>,
        now: Timestamp,
    ) -> Timestamp {
        self.after(&pending.request, connection, (pending.intended_at, now))
    }

    /// From when on nothing of a request can land whose intent was written at the first of these
    /// times. A task leaves when a worker claims it, which may be long after its intent: it counts
    /// from the second, by which it has left.
    pub fn after(
        &self,
        request: &StepRequest,
        connection: Option<&Connection>,
        times: (Timestamp, Timestamp),
    ) -> Timestamp {
        self.window(request, connection, times).over
    }

    /// The same, with what it is made of.
    pub fn window(
        &self,
        request: &StepRequest,
        connection: Option<&Connection>,
        (intended_at, claimed_by): (Timestamp, Timestamp),
    ) -> LandingWindow {
        let begun = match request {
            StepRequest::Task(_) => claimed_by,
            StepRequest::External(_) | StepRequest::Local(_) => intended_at,
        };
        let acts_within = connection.and_then(|connection| connection.acts_within);
        let acts_within = acts_within.unwrap_or(self.acts_within);
        let span = [self.lease, request.timeout(), acts_within];
        let millis = span.iter().map(|span| span.as_millis()).sum();
        LandingWindow {
            over: begun
                .checked_add(Span::from_millis(millis).to_duration())
                .unwrap_or(Timestamp::MAX),
            lease: self.lease,
            timeout: request.timeout(),
            acts_within,
        }
    }
}
