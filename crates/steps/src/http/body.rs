//! The body of a request: it leaves in pieces, and the gate is asked before each.
//!
//! A worker that is paused in the middle of sending must not finish a request that another worker
//! has taken over: a destination that was asked and had nothing would then act twice. A request
//! that breaks off is one that the destination cannot act on.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::stream::BoxStream;
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame, SizeHint};
use semel_model::request::HttpRequest;
use semel_model::{EffectId, Fault};

use super::multipart;
use super::send_state::SendState;
use crate::gate::SendGate;
use crate::resources::{Opened, ResourceStore};

/// How much leaves between two looks at the gate. Most bodies are one piece.
const PIECE_BYTES: u64 = 64 * 1024;

/// What is sent, in order, with its length known before the first byte leaves.
#[derive(Default)]
pub(super) struct Content {
    segments: VecDeque<Segment>,
    bytes: u64,
    /// The media type that the content itself calls for.
    pub(super) media_type: Option<String>,
}

enum Segment {
    Held(Bytes),
    Streamed(BoxStream<'static, io::Result<Bytes>>),
}

impl Content {
    /// What a request asks to be sent. Resources are opened, and not yet read.
    pub(super) async fn of(
        request: &HttpRequest,
        key: Option<EffectId>,
        store: &dyn ResourceStore,
        namespace_id: i32,
    ) -> Result<Self, Fault> {
        let mut content = Self::default();
        if !request.parts.is_empty() {
            return multipart::content(&request.parts, key, store, namespace_id).await;
        }
        if let Some(file) = &request.file {
            content.append_file(file, store, namespace_id).await?;
            content.media_type = Some("application/octet-stream".to_owned());
        } else if let Some(body) = &request.body {
            content.append(body.as_bytes());
        }
        Ok(content)
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let bytes = Bytes::copy_from_slice(bytes);
        self.segments.push_back(Segment::Held(bytes));
    }

    /// Appends the bytes of a resource, as `res://…`.
    pub(super) async fn append_file(
        &mut self,
        file: &str,
        store: &dyn ResourceStore,
        namespace_id: i32,
    ) -> Result<(), Fault> {
        let resource = file.parse().map_err(|error| {
            Fault::permanent(
                "bad-request",
                format!("{file:?} is not a resource: {error}"),
            )
        })?;
        let Opened { bytes, stream } = store.open(namespace_id, resource).await?;
        self.bytes += bytes;
        self.segments.push_back(Segment::Streamed(stream));
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

/// What a step sends, or bytes of our own making, which no gate holds back.
pub(super) type Outgoing = Either<Pieces, Full<Bytes>>;

/// A body that leaves piece by piece.
pub(super) struct Pieces {
    segments: VecDeque<Segment>,
    /// What of the current segment is in our hands.
    rest: Bytes,
    left: u64,
    piece_bytes: u64,
    gate: Arc<dyn SendGate>,
    sending_state: Arc<SendState>,
    #[cfg(debug_assertions)]
    begun: bool,
    #[cfg(debug_assertions)]
    pause: Pause,
}

/// Why a request was not sent to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum BrokenOff {
    #[error("the lease ran out while the request was being sent")]
    GateClosed,
    #[error("the request was cancelled before anything was sent")]
    CalledOff,
    #[error("a resource could not be read while the request was being sent")]
    Resource(#[source] io::Error),
}

impl Pieces {
    /// The first piece is let go by the request's sending state. `subject` is whose turn it is, for
    /// the tests.
    #[cfg(not(debug_assertions))]
    pub(super) fn new(
        content: Content,
        gate: Arc<dyn SendGate>,
        sending_state: Arc<SendState>,
        _subject: String,
    ) -> Self {
        Self {
            segments: content.segments,
            rest: Bytes::new(),
            left: content.bytes,
            piece_bytes: PIECE_BYTES,
            gate,
            sending_state,
        }
    }

    /// In the test build the body leaves in two halves where a harness listens, with a fault point
    /// between them.
    #[cfg(debug_assertions)]
    pub(super) fn new(
        content: Content,
        gate: Arc<dyn SendGate>,
        sending_state: Arc<SendState>,
        subject: String,
    ) -> Self {
        let piece_bytes = match std::env::var_os("SEMEL_FAULTS") {
            Some(_) => content.bytes.div_ceil(2).max(1),
            None => PIECE_BYTES,
        };
        Self {
            segments: content.segments,
            rest: Bytes::new(),
            left: content.bytes,
            piece_bytes,
            gate,
            sending_state,
            begun: false,
            pause: Pause::At(subject),
        }
    }

    /// Holds between the first piece and the second for as long as a harness wants.
    #[cfg(debug_assertions)]
    fn poll_pause(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.begun {
            return Poll::Ready(());
        }
        if let Pause::At(subject) = &self.pause {
            let subject = subject.clone();
            let held = async move { crate::failpoint::failpoint("send.half", &subject).await };
            self.pause = Pause::Held(tokio::spawn(held));
        }
        if let Pause::Held(task) = &mut self.pause {
            ready!(Future::poll(Pin::new(task), context)).ok();
            self.pause = Pause::Over;
        }
        Poll::Ready(())
    }

    #[cfg(not(debug_assertions))]
    fn poll_pause(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// Has something in hand, unless everything has left.
    fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BrokenOff>> {
        while self.rest.is_empty() {
            match self.segments.front_mut() {
                None => break,
                Some(Segment::Held(bytes)) => {
                    self.rest = std::mem::take(bytes);
                    self.segments.pop_front();
                }
                Some(Segment::Streamed(stream)) => {
                    match ready!(stream.as_mut().poll_next(context)) {
                        Some(Ok(bytes)) => self.rest = bytes,
                        Some(Err(error)) => return Poll::Ready(Err(BrokenOff::Resource(error))),
                        None => drop(self.segments.pop_front()),
                    }
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(debug_assertions)]
enum Pause {
    At(String),
    Held(tokio::task::JoinHandle<()>),
    Over,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        if let Err(error) = ready!(self.poll_rest(context)) {
            return Poll::Ready(Some(Err(error)));
        }
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        ready!(self.poll_pause(context));
        if !self.gate.is_open() {
            return Poll::Ready(Some(Err(BrokenOff::GateClosed)));
        }
        if !self.sending_state.let_out() {
            return Poll::Ready(Some(Err(BrokenOff::CalledOff)));
        }
        #[cfg(debug_assertions)]
        {
            self.begun = true;
        }
        let most = usize::try_from(self.piece_bytes).unwrap_or(usize::MAX);
        let piece_bytes = most.min(self.rest.len());
        let piece = self.rest.split_to(piece_bytes);
        self.left = self.left.saturating_sub(piece.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
