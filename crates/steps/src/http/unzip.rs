//! Compressed answers: unpacked piece by piece, and only for as long as they are worth it.

use std::io::Write as _;

use bytes::Bytes;
use flate2::write::MultiGzDecoder;

use super::client::{ExchangeError, Response};

/// The most that a compressed byte may unpack to on average. Text rarely exceeds twenty.
const RATIO_MAX: u64 = 100;

/// Up to here the ratio does not matter: it is what is kept in memory anyway.
const UNJUDGED_BYTES: u64 = 1 << 20;

/// How much is unpacked at a time. A byte unpacks to a thousand at most, so to 4 MiB.
const FEED_BYTES: usize = 4 * 1024;

/// Why an answer could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unread {
    /// The exchange broke off: how it went on is not known.
    #[error("{}", super::classify::describe(.0))]
    Transport(#[from] ExchangeError),
    /// All of it came, or would have, and it is of no use.
    #[error("{0}")]
    Useless(&'static str),
}

/// An answer's bytes as the destination meant them.
pub(super) struct Unpacked {
    response: Response,
    gzip: Option<MultiGzDecoder<Vec<u8>>>,
    /// What came and is not unpacked yet.
    waiting: Bytes,
    packed: u64,
    unpacked: u64,
    ended: bool,
}

impl Unpacked {
    pub(super) fn new(response: Response, gzip: bool) -> Self {
        Self {
            response,
            gzip: gzip.then(|| MultiGzDecoder::new(Vec::new())),
            waiting: Bytes::new(),
            packed: 0,
            unpacked: 0,
            ended: false,
        }
    }

    /// The next bytes; none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Unread> {
        loop {
            if self.ended {
                return Ok(None);
            }
            if self.waiting.is_empty() {
                match self.response.chunk().await? {
                    Some(chunk) => self.waiting = chunk,
                    None => return self.finish(),
                }
            }
            let piece = match &mut self.gzip {
                None => std::mem::take(&mut self.waiting),
                Some(_) => self.unpack()?,
            };
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
        }
    }

    fn unpack(&mut self) -> Result<Bytes, Unread> {
        let Some(gzip) = &mut self.gzip else {
            return Ok(Bytes::new());
        };
        let feed = self.waiting.split_to(FEED_BYTES.min(self.waiting.len()));
        gzip.write_all(&feed)
            .and_then(|()| gzip.flush())
            .map_err(|_| Unread::Useless("the response is not gzip, as its header says"))?;
        let piece = std::mem::take(gzip.get_mut());
        self.packed += feed.len() as u64;
        self.unpacked += piece.len() as u64;
        let fair = self.packed.saturating_mul(RATIO_MAX).max(UNJUDGED_BYTES);
        if self.unpacked > fair {
            return Err(Unread::Useless(
                "the response is too large once it is decompressed",
            ));
        }
        Ok(piece.into())
    }

    fn finish(&mut self) -> Result<Option<Bytes>, Unread> {
        self.ended = true;
        match &mut self.gzip {
            Some(gzip) if self.packed > 0 => {
                gzip.try_finish()
                    .map_err(|_| Unread::Useless("the gzip response is cut off"))?;
                let rest = std::mem::take(gzip.get_mut());
                Ok((!rest.is_empty()).then(|| rest.into()))
            }
            Some(_) | None => Ok(None),
        }
    }
}
