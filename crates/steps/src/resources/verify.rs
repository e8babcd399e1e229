//! Verifying: what is read has the digest that it is named by.

use std::io;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use semel_model::ResourceRef;
use sha2::{Digest as _, Sha256};

/// A read in progress.
struct Reading {
    stream: BoxStream<'static, io::Result<Bytes>>,
    resource: ResourceRef,
    hash: Sha256,
    /// The last piece is held back until the digest is known, so that a reader of a damaged
    /// resource never gets all of its bytes.
    held: Option<Bytes>,
    over: bool,
}

/// Passes the stream on, and breaks it off before its last piece where the digest is another.
pub(super) fn verified(
    resource: ResourceRef,
    stream: BoxStream<'static, io::Result<Bytes>>,
) -> BoxStream<'static, io::Result<Bytes>> {
    let reading = Reading {
        stream,
        resource,
        hash: Sha256::new(),
        held: None,
        over: false,
    };
    stream::unfold(reading, |mut reading| async move {
        let piece = reading.next().await?;
        Some((piece, reading))
    })
    .boxed()
}

impl Reading {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        while !self.over {
            match self.stream.next().await {
                Some(Ok(piece)) => {
                    self.hash.update(&piece);
                    if let Some(before) = self.held.replace(piece) {
                        return Some(Ok(before));
                    }
                }
                Some(Err(error)) => {
                    self.over = true;
                    return Some(Err(error));
                }
                None => {
                    self.over = true;
                    return self.last();
                }
            }
        }
        None
    }

    fn last(&mut self) -> Option<io::Result<Bytes>> {
        let digest: [u8; 32] = self.hash.finalize_reset().into();
        if digest == *self.resource.digest() {
            return self.held.take().map(Ok);
        }
        let message = format!("the bytes of {} do not match their digest", self.resource);
        Some(Err(io::Error::new(io::ErrorKind::InvalidData, message)))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::TryStreamExt as _;

    use super::*;

    fn pieces(texts: &[&'static str]) -> BoxStream<'static, io::Result<Bytes>> {
        let pieces: Vec<_> = texts.iter().map(|text| Ok(Bytes::from(*text))).collect();
        stream::iter(pieces).boxed()
    }

    fn named(text: &str) -> ResourceRef {
        ResourceRef::from_digest(Sha256::digest(text).into())
    }

    #[tokio::test]
    async fn the_right_bytes_pass() {
        let read: Vec<Bytes> = verified(named("abc"), pieces(&["a", "b", "c"]))
            .try_collect()
            .await
            .unwrap();

        assert_eq!(read.concat(), b"abc");
    }

    #[tokio::test]
    async fn other_bytes_break_off_before_the_last_piece() {
        let read: Vec<io::Result<Bytes>> = verified(named("abc"), pieces(&["a", "b", "d"]))
            .collect()
            .await;

        assert_eq!(read.iter().filter(|piece| piece.is_ok()).count(), 2);
        assert!(read.last().unwrap().is_err());
    }

    #[tokio::test]
    async fn an_empty_stream_is_verified_too() {
        assert_eq!(verified(named("abc"), pieces(&[])).count().await, 1);
        assert_eq!(verified(named(""), pieces(&[])).count().await, 0);
    }
}
