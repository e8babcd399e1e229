//! The body of a request: it leaves in pieces, and the gate is asked before each.
//!
//! A worker that is paused in the middle of sending must not finish a request that another worker
//! has taken over: a destination that was asked and had nothing would then act twice. A request
//! that breaks off is one that the destination cannot act on.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use crate::gate::SendGate;

/// How much leaves between two looks at the gate. Most bodies are one piece.
#[cfg(not(feature = "faults"))]
const PIECE_BYTES: usize = 64 * 1024;

/// A body that leaves piece by piece.
pub(super) struct Pieces {
    rest: Bytes,
    piece_bytes: usize,
    gate: Arc<dyn SendGate>,
    begun: Arc<AtomicBool>,
    #[cfg(feature = "faults")]
    pause: Pause,
}

/// The lease ran out while the request was being sent.
#[derive(Debug, thiserror::Error)]
#[error("the lease ran out while the request was being sent")]
pub(super) struct GateClosed;

impl Pieces {
    /// `begun` is set when the first piece leaves. `subject` is whose turn it is, for the tests.
    #[cfg(not(feature = "faults"))]
    pub(super) fn new(
        body: &str,
        gate: Arc<dyn SendGate>,
        begun: Arc<AtomicBool>,
        _subject: String,
    ) -> Self {
        Self {
            rest: Bytes::copy_from_slice(body.as_bytes()),
            piece_bytes: PIECE_BYTES,
            gate,
            begun,
        }
    }

    /// In the test build the body leaves in two halves, with a fault point between them.
    #[cfg(feature = "faults")]
    pub(super) fn new(
        body: &str,
        gate: Arc<dyn SendGate>,
        begun: Arc<AtomicBool>,
        subject: String,
    ) -> Self {
        Self {
            rest: Bytes::copy_from_slice(body.as_bytes()),
            piece_bytes: body.len().div_ceil(2).max(1),
            gate,
            begun,
            pause: Pause::At(subject),
        }
    }

    /// Holds between the first piece and the second for as long as a harness wants.
    #[cfg(feature = "faults")]
    fn poll_pause(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.begun.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        if let Pause::At(subject) = &self.pause {
            let subject = subject.clone();
            let held = async move { crate::fault::point("send.half", &subject).await };
            self.pause = Pause::Held(tokio::spawn(held));
        }
        if let Pause::Held(task) = &mut self.pause {
            std::task::ready!(Future::poll(Pin::new(task), context)).ok();
            self.pause = Pause::Over;
        }
        Poll::Ready(())
    }

    #[cfg(not(feature = "faults"))]
    fn poll_pause(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

#[cfg(feature = "faults")]
enum Pause {
    At(String),
    Held(tokio::task::JoinHandle<()>),
    Over,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = GateClosed;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, GateClosed>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        std::task::ready!(self.poll_pause(context));
        if !self.gate.is_open() {
            return Poll::Ready(Some(Err(GateClosed)));
        }
        self.begun.store(true, Ordering::Release);
        let piece_bytes = self.piece_bytes.min(self.rest.len());
        let piece = self.rest.split_to(piece_bytes);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
