//! Gathering: a stream is cut into parts while its bytes are counted and hashed.

use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use semel_model::{Resource, ResourceRef};
use sha2::{Digest as _, Sha256};

use super::KeepError;

/// The size of a part. Two are in memory at a time: one on its way out, one gathering. Every part
/// but the last has this size, as some S3-compatible stores demand.
pub(super) const PART_BYTES: usize = 8 << 20;

/// Cuts a stream into parts.
pub(super) struct Gather<'a> {
    stream: BoxStream<'a, io::Result<Bytes>>,
    /// What of the last piece did not fit into its part.
    rest: Bytes,
    ended: bool,
    hash: Sha256,
    bytes: u64,
    bytes_max: u64,
}

impl<'a> Gather<'a> {
    pub(super) fn new(stream: BoxStream<'a, io::Result<Bytes>>, bytes_max: u64) -> Self {
        Self {
            stream,
            rest: Bytes::new(),
            ended: false,
            hash: Sha256::new(),
            bytes: 0,
            bytes_max,
        }
    }

    /// Whether the stream has nothing more.
    pub(super) fn has_ended(&self) -> bool {
        self.ended && self.rest.is_empty()
    }

    /// The next part: full, unless it is the last.
    pub(super) async fn part(&mut self) -> Result<Bytes, KeepError> {
        let mut part = BytesMut::new();
        loop {
            let taken = self.rest.len().min(PART_BYTES - part.len());
            part.extend_from_slice(&self.rest[..taken]);
            self.rest.advance(taken);
            if self.ended || !self.rest.is_empty() {
                return Ok(part.freeze());
            }
            // Also when the part is full: the caller learns whether it was the last.
            match self.stream.next().await {
                Some(Ok(piece)) => self.take(piece)?,
                Some(Err(error)) => return Err(KeepError::Source(error)),
                None => self.ended = true,
            }
        }
    }

    fn take(&mut self, piece: Bytes) -> Result<(), KeepError> {
        self.bytes += piece.len() as u64;
        if self.bytes > self.bytes_max {
            let bytes_max = self.bytes_max;
            return Err(KeepError::TooLarge { bytes_max });
        }
        self.hash.update(&piece);
        self.rest = piece;
        Ok(())
    }

    /// What was gathered, once the stream has ended.
    pub(super) fn resource(self, media_type: &str) -> Resource {
        assert!(self.has_ended(), "a digest is known at the end");
        Resource {
            resource: ResourceRef::from_digest(self.hash.finalize().into()),
            bytes: self.bytes,
            media_type: media_type.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    async fn cut(pieces: Vec<usize>, bytes_max: u64) -> Result<(Vec<usize>, Resource), KeepError> {
        let pieces = pieces
            .into_iter()
            .map(|size| Ok(Bytes::from(vec![7; size])));
        let mut gather = Gather::new(stream::iter(pieces).boxed(), bytes_max);
        let mut sizes = Vec::new();
        while sizes.is_empty() || !gather.has_ended() {
            sizes.push(gather.part().await?.len());
        }
        Ok((sizes, gather.resource("text/plain")))
    }

    #[tokio::test]
    async fn every_part_but_the_last_is_full() {
        let (sizes, resource) = cut(vec![3, PART_BYTES, 5 << 20, 9 << 20], u64::MAX)
            .await
            .unwrap();

        assert_eq!(sizes.len(), 3);
        assert_eq!(sizes[..2], [PART_BYTES, PART_BYTES]);
        assert_eq!(sizes.iter().sum::<usize>() as u64, resource.bytes);
    }

    #[tokio::test]
    async fn a_stream_that_fills_its_parts_leaves_no_empty_one() {
        let (sizes, _) = cut(vec![PART_BYTES, PART_BYTES], u64::MAX).await.unwrap();
        let (nothing, _) = cut(vec![], u64::MAX).await.unwrap();

        assert_eq!(sizes, [PART_BYTES, PART_BYTES]);
        assert_eq!(nothing, [0]);
    }

    #[tokio::test]
    async fn pieces_do_not_change_the_name() {
        let (_, one) = cut(vec![1, 2, 3], 6).await.unwrap();
        let (_, other) = cut(vec![6], 6).await.unwrap();

        assert_eq!(one, other);
        assert!(matches!(
            cut(vec![6, 1], 6).await,
            Err(KeepError::TooLarge { bytes_max: 6 })
        ));
    }
}
