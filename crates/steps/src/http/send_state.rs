//! The state of sending one request: whether anything of it may have left.
//!
//! A request that runs out of time while its connection is being made has failed: nothing of it
//! left. One that runs out of time later is in doubt. One atomic word, which both sides change,
//! tells the two apart, so that a cancelled request cannot leave after all.
//!
//! ```text
//! NotSent ──the first byte may leave──▶ MaybeSent
//!    └──────the exchange is abandoned──▶ Abandoned
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::Pooling;

const NOT_SENT: u8 = 0;
const MAYBE_SENT: u8 = 1;
const ABANDONED: u8 = 2;

tokio::task_local! {
    /// The request that this task is sending. The HTTP client does not hand it to those who
    /// resolve names and make connections, so it travels with the task.
    pub(super) static SENDING: Arc<SendState>;
}

/// The sending state of one request.
pub(super) struct SendState {
    /// The port that it goes to.
    pub(super) port: u16,
    /// Whether a connection that stands is already more than nothing.
    at_connection: bool,
    state: AtomicU8,
}

impl SendState {
    /// A request that has not left. Its body releases the first byte of a request that has one:
    /// half a request is none. One without a body is its head, and may leave as soon as a
    /// connection stands; on a connection that stood before, its leaving cannot be observed.
    pub(super) fn new(port: u16, has_body: bool, pooling: Pooling) -> Self {
        let unseen = !has_body && pooling == Pooling::Shared;
        Self {
            port,
            at_connection: !has_body,
            state: AtomicU8::new(if unseen { MAYBE_SENT } else { NOT_SENT }),
        }
    }

    /// Asks to let the first byte go. False if the request was cancelled.
    pub(super) fn let_out(&self) -> bool {
        let state = &self.state;
        let before =
            state.compare_exchange(NOT_SENT, MAYBE_SENT, Ordering::AcqRel, Ordering::Acquire);
        before.is_ok() || before == Err(MAYBE_SENT)
    }

    /// Tells that a connection stands. False if the request was cancelled.
    pub(super) fn connected(&self) -> bool {
        match self.at_connection {
            true => self.let_out(),
            false => self.state.load(Ordering::Acquire) != ABANDONED,
        }
    }

    /// Cancels the request. True where nothing of it left, and nothing will.
    pub(super) fn call_off(&self) -> bool {
        let state = &self.state;
        let before =
            state.compare_exchange(NOT_SENT, ABANDONED, Ordering::AcqRel, Ordering::Acquire);
        before.is_ok() || before == Err(ABANDONED)
    }
}
