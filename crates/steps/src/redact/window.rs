//! Redaction of what comes in pieces, and of what is cut: a secret may lie across an edge.
//!
//! Bytes closer to an edge than the length of the longest form may be the beginning of a secret. They are
//! carried over to the next piece; if nothing follows because the rest was cut off, they are cut off too.

use std::io;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};

use super::Redactor;

/// Bytes in pieces, as they come from a destination or go to a store.
type Pieces<'a> = BoxStream<'a, io::Result<Bytes>>;

/// A stream that is being searched; nothing at its end.
type Searched<'a> = Option<(Pieces<'a>, Window<'a>)>;

/// The bytes of a stream that have come and are not passed on yet.
struct Window<'a> {
    redactor: &'a Redactor,
    held: Vec<u8>,
}

impl Redactor {
    /// The same stream without the secrets. Never more of it is held than twice the longest form and a piece.
    pub(crate) fn redact_stream<'a>(&'a self, pieces: Pieces<'a>) -> Pieces<'a> {
        if self.search().is_none() {
            return pieces;
        }
        let window = Window {
            redactor: self,
            held: Vec::new(),
        };
        stream::try_unfold(Some((pieces, window)), next_piece).boxed()
    }

    /// Bytes without the secrets, of which more may have followed that was cut off.
    pub(crate) fn redact_beginning(&self, bytes: &[u8]) -> Vec<u8> {
        self.take_decided(&mut bytes.to_vec(), false)
    }

    /// The first words of an answer without the secrets, searched before they are cut. `is_whole` says
    /// whether nothing of the answer is missing.
    pub(crate) fn excerpt(&self, bytes: &[u8], is_whole: bool, bytes_max: usize) -> String {
        let enough = bytes.len().min(bytes_max.saturating_add(self.longest));
        let is_end = is_whole && enough == bytes.len();
        let clean = self.take_decided(&mut bytes[..enough].to_vec(), is_end);
        String::from_utf8_lossy(&clean[..clean.len().min(bytes_max)]).into_owned()
    }

    /// Takes out of `held` what no further byte can make a part of a secret, without the secrets.
    fn take_decided(&self, held: &mut Vec<u8>, is_end: bool) -> Vec<u8> {
        // A form that begins before `edge` ends within what is held.
        let edge = if is_end {
            held.len()
        } else {
            held.len().saturating_sub(self.longest.saturating_sub(1))
        };
        let mut clean = Vec::with_capacity(held.len());
        let mut from = 0;
        if let Some(search) = self.search() {
            for found in search.find_iter(held.as_slice()) {
                if found.start() >= edge {
                    break;
                }
                clean.extend_from_slice(&held[from..found.start()]);
                clean.extend_from_slice(self.marks[found.pattern().as_usize()].as_bytes());
                from = found.end();
            }
        }
        let until = edge.max(from);
        clean.extend_from_slice(&held[from..until]);
        held.drain(..until);
        clean
    }
}

async fn next_piece(searched: Searched<'_>) -> io::Result<Option<(Bytes, Searched<'_>)>> {
    let Some((mut pieces, mut window)) = searched else {
        return Ok(None);
    };
    while let Some(piece) = pieces.next().await {
        window.held.extend_from_slice(&piece?);
        // The bytes carried over are searched again. Waiting for twice the longest form keeps that below half.
        if window.held.len() > window.redactor.longest * 2 {
            let clean = window.redactor.take_decided(&mut window.held, false);
            return Ok(Some((clean.into(), Some((pieces, window)))));
        }
    }
    let clean = window.redactor.take_decided(&mut window.held, true);
    Ok((!clean.is_empty()).then(|| (clean.into(), None)))
}

#[cfg(test)]
mod tests {
    use futures_util::TryStreamExt as _;
    use semel_model::SecretText;

    use super::*;

    const SECRET: &str = "sk_live_Zq7wE3rT9yUiOpAsDfGh";

    fn redactor() -> Redactor {
        let [long, short] = [SECRET, "sk_live_Z"].map(|text| SecretText::new(text.to_owned()));
        Redactor::of([("key", &long), ("part", &short)])
    }

    async fn streamed(text: &str, piece_bytes: usize) -> String {
        let pieces: Vec<io::Result<Bytes>> = text
            .as_bytes()
            .chunks(piece_bytes)
            .map(|piece| Ok(Bytes::copy_from_slice(piece)))
            .collect();
        let redactor = redactor();
        let clean = redactor.redact_stream(stream::iter(pieces).boxed());
        let clean: Vec<Bytes> = clean.try_collect().await.unwrap();
        String::from_utf8(clean.concat()).unwrap()
    }

    #[tokio::test]
    async fn a_stream_is_redacted_alike_however_it_is_cut_into_pieces() {
        let filler = "an answer of some length, ".repeat(40);
        let hexed = hex::encode(SECRET);
        let text = format!("{SECRET}{filler}{hexed} sk_live_Z {filler}{SECRET}{SECRET}");
        let expected = format!(
            "[secret key]{filler}[secret key] [secret part] {filler}[secret key][secret key]"
        );

        for piece_bytes in [1, 2, 3, 7, 27, 28, 29, 64, 300, 1_000, 100_000] {
            let clean = streamed(&text, piece_bytes).await;
            assert_eq!(clean, expected, "in pieces of {piece_bytes}");
        }
    }

    #[tokio::test]
    async fn a_stream_that_breaks_off_says_so() {
        let pieces = [Ok(Bytes::from("begun")), Err(io::Error::other("cut"))];
        let redactor = redactor();

        let read = redactor.redact_stream(stream::iter(pieces).boxed());
        let read: io::Result<Vec<Bytes>> = read.try_collect().await;

        assert_eq!(read.unwrap_err().to_string(), "cut");
    }

    #[test]
    fn no_beginning_of_a_secret_shows_at_a_cut() {
        let redactor = redactor();
        for pad in 0..400 {
            let text = format!("{}{SECRET} and more", "y".repeat(pad));
            let bytes = text.as_bytes();

            for said in [
                redactor.excerpt(bytes, true, 300),
                redactor.excerpt(&bytes[..bytes.len().min(pad + 12)], false, 300),
                String::from_utf8(redactor.redact_beginning(&bytes[..pad + 12])).unwrap(),
            ] {
                assert!(!said.contains("sk_"), "{pad}: {said}");
                assert!(said.len() <= 412, "{pad}: {}", said.len());
            }
        }
        let short = redactor.excerpt(b"no such order", true, 300);
        assert_eq!(short, "no such order");
        let crowd = redactor.excerpt(SECRET.repeat(50).as_bytes(), true, 300);
        assert!(!crowd.contains("sk_"), "{crowd}");
    }
}
