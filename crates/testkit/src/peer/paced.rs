//! A body that is sent at once, or byte by byte with a pause between them.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

/// A body on its way.
#[derive(Debug)]
pub(super) struct Paced {
    rest: Bytes,
    pause: Option<(Duration, Pin<Box<Sleep>>)>,
}

impl Paced {
    /// Everything at once.
    pub(super) fn whole(bytes: Bytes) -> Self {
        Self {
            rest: bytes,
            pause: None,
        }
    }

    /// A byte at a time, with so much before each.
    pub(super) fn slowly(self, every: Duration) -> Self {
        Self {
            pause: Some((every, Box::pin(sleep(every)))),
            ..self
        }
    }
}

impl Body for Paced {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let piece = match &mut self.pause {
            Some((every, pausing)) => {
                ready!(pausing.as_mut().poll(context));
                *pausing = Box::pin(sleep(*every));
                self.rest.split_to(1)
            }
            None => std::mem::take(&mut self.rest),
        };
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
