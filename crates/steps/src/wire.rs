//! Bytes that a destination sends, counted beneath the protocol.
//!
//! A driver holds a message whole before its reader sees the first byte, and a line until it ends.
//! So how much a destination may send is counted where the bytes arrive, and a [`Wire`] that has
//! brought too many breaks off. The protocol above sees a broken connection: whether that is a
//! failure or a doubt is for its executor to say, as for any other break.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

mod answers;

pub(crate) use answers::LargeAnswers;
use answers::{AnswerLine, Place};

/// The most bytes of an answer that every connection may hold at once.
pub(crate) const SMALL_BYTES: usize = 64 << 10;

/// Why a connection was broken off here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// It brought more than it may.
    TooMuch,
    /// Its large answer was silent, or had its turn, while others waited for its place.
    ForOthers,
}

/// How much one connection has brought, and may still bring.
#[derive(Debug)]
pub(crate) struct Meter {
    counts: Mutex<Counts>,
}

#[derive(Debug)]
struct Counts {
    budget_bytes: usize,
    left_bytes: usize,
    all_bytes: usize,
    is_grown: bool,
    cut: Option<Cut>,
    /// The place of a large answer, while it is read.
    place: Option<Place>,
}

impl Counts {
    /// Whether the connection was broken off, for others by now as well.
    fn look(&mut self, waker: Option<&Waker>) -> Option<Cut> {
        if self
            .place
            .as_ref()
            .is_some_and(|place| !place.is_kept(waker))
        {
            self.place = None;
            self.cut = Some(Cut::ForOthers);
        }
        self.cut
    }
}

impl Meter {
    /// A connection that may bring so many bytes, until it is allowed others.
    pub(crate) fn of(budget_bytes: usize) -> Self {
        let counts = Counts {
            budget_bytes,
            left_bytes: budget_bytes,
            all_bytes: 0,
            is_grown: false,
            cut: None,
            place: None,
        };
        Self {
            counts: Mutex::new(counts),
        }
    }

    /// The next answer may have so many bytes, and the one before it is read. A connection that is
    /// cut stays so.
    pub(crate) fn allow(&self, bytes: usize) {
        let mut counts = self.lock();
        counts.look(None);
        counts.budget_bytes = bytes;
        counts.left_bytes = bytes;
        counts.place = None;
    }

    /// Why the connection was broken off here, if it was.
    pub(crate) fn cut(&self) -> Option<Cut> {
        self.lock().look(None)
    }

    /// Whether one of its answers was more than a small one.
    pub(crate) fn is_grown(&self) -> bool {
        self.lock().is_grown
    }

    /// Everything that the connection has brought.
    pub(crate) fn all_bytes(&self) -> usize {
        self.lock().all_bytes
    }

    /// Whether a large answer goes on, which has no place yet.
    fn needs_room(&self) -> bool {
        let counts = self.lock();
        let brought = counts.budget_bytes - counts.left_bytes;
        counts.budget_bytes > SMALL_BYTES && brought >= SMALL_BYTES && counts.place.is_none()
    }

    /// Refuses to go on with a connection that was broken off. The reader is woken if that happens later.
    fn check(&self, waker: &Waker) -> io::Result<()> {
        let mut counts = self.lock();
        match counts.look(Some(waker)) {
            None => Ok(()),
            Some(Cut::TooMuch) => Err(too_much(counts.budget_bytes)),
            Some(Cut::ForOthers) => Err(too_slow()),
        }
    }

    fn take(&self, place: Place) {
        self.lock().place = Some(place);
    }

    fn spend(&self, bytes: usize) -> io::Result<()> {
        let mut counts = self.lock();
        counts.all_bytes = counts.all_bytes.saturating_add(bytes);
        if let Some(place) = counts.place.as_ref().filter(|_| bytes > 0) {
            place.heard(Instant::now());
        }
        match counts.left_bytes.checked_sub(bytes) {
            Some(left) => {
                counts.left_bytes = left;
                let brought = counts.budget_bytes - left;
                counts.is_grown |= brought > SMALL_BYTES;
                Ok(())
            }
            None => {
                counts.cut = Some(Cut::TooMuch);
                Err(too_much(counts.budget_bytes))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn too_much(most: usize) -> io::Error {
    io::Error::other(format!(
        "the server sent more than {most} bytes in one answer"
    ))
}

fn too_slow() -> io::Error {
    io::Error::other("the server was slow to answer while other answers waited")
}

/// A stream whose incoming bytes are counted.
#[derive(Debug)]
pub(crate) struct Wire<S> {
    stream: S,
    meter: Arc<Meter>,
    line: Option<AnswerLine>,
}

impl<S> Wire<S> {
    pub(crate) fn new(stream: S, meter: Arc<Meter>) -> Self {
        Self {
            stream,
            meter,
            line: None,
        }
    }

    /// Large answers wait for their turn.
    pub(crate) fn in_line(self, line: AnswerLine) -> Self {
        Self {
            line: Some(line),
            ..self
        }
    }

    pub(crate) fn stream(&self) -> &S {
        &self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.meter.check(context.waker())?;
        if let Some(line) = &mut this.line {
            if this.meter.needs_room() {
                let place = ready!(line.poll_turn(context));
                this.meter.take(place);
                this.meter.check(context.waker())?;
            } else {
                line.leave();
            }
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        Poll::Ready(this.meter.spend(buffer.filled().len() - before))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, slices)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::poll;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::answers::{LARGE_ANSWERS_OF_ONE_MAX, SILENCE_MAX};
    use super::*;

    #[tokio::test]
    async fn an_answer_beyond_its_budget_breaks_the_wire_and_another_budget_does_not_mend_it() {
        let (mut server, client) = duplex(64);
        let meter = Arc::new(Meter::of(10));
        let mut wire = Wire::new(client, meter.clone());
        let mut ten = [0; 10];

        server.write_all(&[1; 10]).await.unwrap();
        wire.read_exact(&mut ten).await.unwrap();
        meter.allow(10);
        server.write_all(&[2; 10]).await.unwrap();
        wire.read_exact(&mut ten).await.unwrap();
        assert_eq!(meter.cut(), None);
        server.write_all(&[3; 1]).await.unwrap();
        wire.read_exact(&mut ten).await.unwrap_err();
        meter.allow(10);
        wire.read_exact(&mut ten).await.unwrap_err();

        assert_eq!(meter.cut(), Some(Cut::TooMuch));
        assert_eq!(meter.all_bytes(), 21);
    }

    /// A wire that has brought as much of a large answer as a small one has.
    async fn half_read(
        answers: &Arc<LargeAnswers>,
        namespace_id: i32,
    ) -> (Wire<DuplexStream>, Arc<Meter>) {
        let (mut server, client) = duplex(4 * SMALL_BYTES);
        let meter = Arc::new(Meter::of(8 * SMALL_BYTES));
        let line = answers.line_of(namespace_id);
        let mut wire = Wire::new(client, meter.clone()).in_line(line);
        server.write_all(&vec![1; 2 * SMALL_BYTES]).await.unwrap();
        wire.read_exact(&mut vec![0; SMALL_BYTES]).await.unwrap();
        (wire, meter)
    }

    #[tokio::test]
    async fn a_namespace_reads_a_few_large_answers_at_once_and_leaves_others_theirs() {
        let answers = Arc::<LargeAnswers>::default();
        let mut read = Vec::new();
        for _ in 0..LARGE_ANSWERS_OF_ONE_MAX {
            let (mut wire, meter) = half_read(&answers, 1).await;
            wire.read_exact(&mut vec![0; SMALL_BYTES]).await.unwrap();
            read.push((wire, meter));
        }

        let (mut late, _meter) = half_read(&answers, 1).await;
        let mut rest = vec![0; SMALL_BYTES];
        let mut reading = pin!(late.read_exact(&mut rest));
        assert!(poll!(reading.as_mut()).is_pending());
        let (mut other, _other) = half_read(&answers, 2).await;
        other.read_exact(&mut vec![0; SMALL_BYTES]).await.unwrap();
        read[0].1.allow(SMALL_BYTES);

        reading.await.unwrap();
    }

    #[tokio::test]
    async fn a_large_answer_is_remembered_of_a_wire() {
        let answers = Arc::<LargeAnswers>::default();
        let (mut wire, meter) = half_read(&answers, 1).await;
        assert!(!meter.is_grown());

        wire.read_exact(&mut [0; 1]).await.unwrap();
        meter.allow(SMALL_BYTES);

        assert!(meter.is_grown());
    }

    #[tokio::test]
    async fn silent_answers_do_not_keep_the_places_that_another_namespace_waits_for() {
        let answers = Arc::<LargeAnswers>::default();
        let mut silent = Vec::new();
        for namespace_id in [1, 2] {
            for _ in 0..LARGE_ANSWERS_OF_ONE_MAX {
                let (mut wire, meter) = half_read(&answers, namespace_id).await;
                wire.read_exact(&mut vec![0; SMALL_BYTES]).await.unwrap();
                silent.push((wire, meter));
            }
        }
        let is_cut = |meter: &Meter| meter.cut() == Some(Cut::ForOthers);
        answers.make_room(Instant::now() + SILENCE_MAX);
        assert!(
            !silent.iter().any(|(_, meter)| is_cut(meter)),
            "nobody waits"
        );

        let (mut late, _meter) = half_read(&answers, 3).await;
        let mut rest = vec![0; SMALL_BYTES];
        let mut reading = pin!(late.read_exact(&mut rest));
        assert!(poll!(reading.as_mut()).is_pending());
        assert!(
            !silent.iter().any(|(_, meter)| is_cut(meter)),
            "silent for a moment"
        );
        answers.make_room(Instant::now() + SILENCE_MAX);
        reading.await.unwrap();

        let (mut cut, kept): (Vec<_>, Vec<_>) =
            silent.into_iter().partition(|(_, meter)| is_cut(meter));
        assert_eq!(
            (cut.len(), kept.len()),
            (1, 2 * LARGE_ANSWERS_OF_ONE_MAX - 1)
        );
        let (wire, meter) = &mut cut[0];
        meter.allow(SMALL_BYTES);
        wire.read_exact(&mut [0; 1]).await.unwrap_err();
        assert!(is_cut(meter), "another answer does not mend it");
    }
}
