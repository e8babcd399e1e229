//! Landing: how long after its intent a request may still arrive and be acted on.
//!
//! ```text
//! intent ── room ── lease ── timeout ── acts_within ─▶ landed
//!           │       │        │          └ the destination works on after the exchange has ended
//!           │       │        └ the exchange itself; the kernel stops sending with it
//!           │       └ a worker that was paused may still begin to send
//!           └ a request outside may wait for its place and its turn at the destination
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
    /// How long a request to a destination may wait there for its place and its turn before. Its worker's lease is
    /// renewed meanwhile.
    pub room: Span,
    /// How long a destination may still act where its connection does not say.
    pub acts_within: Span,
}

/// When nothing of a request can land any more, and what that is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LandingWindow {
    /// When.
    pub over: Timestamp,
    /// How long after the intent its worker may still begin to send: the wait for room, and a lease.
    pub until_sent: Span,
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

    /// From when on an attempt may be repeated whose worker was lost: a lease after it may have left. What the worker
    /// sent may be on its way until then, although the worker is known dead.
    pub fn repeat_from(&self, pending: &PendingEffect) -> Timestamp {
        let begun = self.send_window_of(&pending.request).to_duration();
        pending
            .intended_at
            .checked_add(begun)
            .unwrap_or(Timestamp::MAX)
    }

    /// How long a worker may still begin to send after the intent. Only a request to a destination waits for room.
    fn send_window_of(&self, request: &StepRequest) -> Span {
        match request {
            StepRequest::External(_) => self.external_send_window(),
            StepRequest::Task(_) | StepRequest::Local(_) => self.lease,
        }
    }

    /// How long after its intent a request to a destination may still begin to be sent.
    pub fn external_send_window(&self) -> Span {
        Span::from_millis(self.lease.as_millis() + self.room.as_millis())
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
        let until_sent = self.send_window_of(request);
        let acts_within = connection.and_then(|connection| connection.acts_within);
        let acts_within = acts_within.unwrap_or(self.acts_within);
        let span = [until_sent, request.timeout(), acts_within];
        let millis = span.iter().map(|span| span.as_millis()).sum();
        LandingWindow {
            over: begun
                .checked_add(Span::from_millis(millis).to_duration())
                .unwrap_or(Timestamp::MAX),
            until_sent,
            timeout: request.timeout(),
            acts_within,
        }
    }
}

#[cfg(test)]
mod tests {
    use semel_model::request::{ExternalRequest, HttpRequest, TaskRequest};
    use semel_model::{EffectId, Guard};
    use semel_steps::ROOM_WAIT_MAX;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_request_that_waits_for_room_after_its_intent_may_land_so_much_later() {
        let landing = Landing {
            lease: Span::from_secs(30),
            room: Span::from_secs(3),
            acts_within: Span::from_secs(60),
        };
        let request = ExternalRequest::Http(HttpRequest {
            connection: None,
            method: "POST".to_owned(),
            url: "https://bank.example/pay".to_owned(),
            headers: Vec::new(),
            key_header: None,
            body: None,
            parts: Vec::new(),
            file: None,
            pages: None,
            timeout: Span::from_secs(20),
        });
        let task = StepRequest::Task(TaskRequest {
            queue: "q".to_owned(),
            input: serde_json::Value::Null,
            lease: Span::from_secs(20),
            until: None,
        });
        let times = (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
        let request: StepRequest = request.into();
        let repeat_from = |request: &StepRequest| {
            let effect = EffectId::from_uuid(Uuid::nil());
            let begun = Timestamp::UNIX_EPOCH;
            let pending = PendingEffect::intend(effect, Guard::Review, request.clone(), begun);
            landing.repeat_from(&pending).as_second()
        };

        let outside = landing.window(&request, None, times);
        let again = (repeat_from(&request), repeat_from(&task));
        let task = landing.window(&task, None, times);

        assert_eq!(outside.over.as_second(), 3 + 30 + 20 + 60);
        assert_eq!(outside.until_sent, Span::from_secs(33));
        assert_eq!(task.over.as_second(), 30 + 20 + 60);
        assert_eq!(
            again,
            (3 + 30, 30),
            "what a lost worker sent leaves no earlier again"
        );
        assert!(ROOM_WAIT_MAX <= landing.room.to_duration());
    }
}
