//! A connection whose client does not read is cut.
//!
//! A response that waits to be written keeps its memory, of which all namespaces have one part. A client that asks and
//! never reads would keep it for as long as it likes. So while bytes wait, some must leave within a time. A connection
//! with nothing to write, such as a quiet stream of events, has no such limit.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A connection that fails once its client has taken no byte of what waits for so long.
#[derive(Debug)]
pub(crate) struct MustRead<S> {
    stream: S,
    patience: Duration,
    /// Runs while bytes wait that the client does not take.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> MustRead<S> {
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Self {
            stream,
            patience,
            timer: None,
        }
    }

    /// Passes the outcome of a write on: one that waits for too long has failed.
    fn judge<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.timer = None;
            return written;
        }
        let patience = self.patience;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(patience)));
        match timer.as_mut().poll(context) {
            Poll::Ready(()) => {
                let why = "the client reads nothing of its response";
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MustRead<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MustRead<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.judge(written, context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, pieces);
        this.judge(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn a_write_fails_once_the_client_has_taken_nothing_for_the_time() {
        let (ours, _theirs) = duplex(8);
        let mut ours = MustRead::new(ours, Duration::from_millis(1));

        let stalled = ours.write_all(&[0; 64]).await;

        assert_eq!(stalled.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn what_a_client_takes_begins_the_time_anew() {
        let (ours, mut theirs) = duplex(8);
        let mut ours = MustRead::new(ours, Duration::from_secs(3_600));
        ours.write_all(&[7; 8]).await.unwrap();

        let waits = futures_util::poll!(pin!(ours.write(&[7; 8])));
        let runs = ours.timer.is_some();
        theirs.read_exact(&mut [0; 8]).await.unwrap();
        let written = futures_util::poll!(pin!(ours.write(&[7; 8])));

        assert!(waits.is_pending() && runs);
        assert!(matches!(written, Poll::Ready(Ok(8))), "{written:?}");
        assert!(ours.timer.is_none(), "nothing waits");
    }

    #[tokio::test]
    async fn a_connection_with_nothing_to_write_has_no_limit() {
        let (ours, mut theirs) = duplex(8);
        let mut ours = MustRead::new(ours, Duration::ZERO);
        let mut word = [0; 5];

        for _ in 0..3 {
            ours.write_all(b"event").await.unwrap();
            theirs.read_exact(&mut word).await.unwrap();
        }

        assert_eq!(&word, b"event");
        assert!(ours.timer.is_none());
    }
}
