//! The messages of PostgreSQL's protocol, cut out of a stream of bytes.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The bytes of a message before its body: the letter of its kind, and its length without that letter.
const HEAD_BYTES: usize = 5;

/// The codes by which a client asks for an encrypted connection, in place of a protocol version: TLS and GSSAPI.
const ENCRYPTION: [u32; 2] = [80_877_103, 80_877_104];

/// The server's answer where it does not encrypt.
const IN_THE_CLEAR: &[u8] = b"N";

/// The longest message with which a client begins.
const STARTUP_BYTES_MAX: usize = 10_000;

/// One message, as it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    bytes: Vec<u8>,
}

impl Frame {
    /// A message of a kind.
    pub(super) fn new(kind: u8, body: &[u8]) -> Self {
        let length = u32::try_from(body.len() + HEAD_BYTES - 1).unwrap_or(u32::MAX);
        let mut bytes = vec![kind];
        bytes.extend(length.to_be_bytes());
        bytes.extend(body);
        Self { bytes }
    }

    /// The letter of its kind.
    pub(super) fn kind(&self) -> u8 {
        self.bytes.first().copied().unwrap_or_default()
    }

    pub(super) fn body(&self) -> &[u8] {
        self.bytes.get(HEAD_BYTES..).unwrap_or_default()
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The texts with which the body begins, each of which ends with a zero byte.
    pub(super) fn texts(&self) -> impl Iterator<Item = &[u8]> {
        self.body().split(|byte| *byte == 0)
    }
}

/// Bytes of one direction that are not a whole message yet.
#[derive(Debug, Default)]
pub(super) struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// The next message, once all of it is there.
    pub(super) fn pop(&mut self) -> Option<Frame> {
        let [_, length @ ..] = self.bytes.first_chunk::<HEAD_BYTES>()?;
        let whole = 1 + u32::from_be_bytes(*length) as usize;
        if self.bytes.len() < whole {
            return None;
        }
        let rest = self.bytes.split_off(whole);
        let bytes = std::mem::replace(&mut self.bytes, rest);
        Some(Frame { bytes })
    }
}

/// Reads the message with which a client begins, the only one without a letter. A client that asks for encryption is
/// told that there is none, because what is encrypted cannot be read.
pub(super) async fn read_startup<S>(client: &mut S) -> io::Result<Vec<u8>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let length = client.read_u32().await?;
        let code = client.read_u32().await?;
        if ENCRYPTION.contains(&code) {
            client.write_all(IN_THE_CLEAR).await?;
            continue;
        }
        let whole = length as usize;
        if !(8..=STARTUP_BYTES_MAX).contains(&whole) {
            return Err(io::Error::other("this is no client of PostgreSQL"));
        }
        let mut message = vec![0; whole];
        message[..4].copy_from_slice(&length.to_be_bytes());
        message[4..8].copy_from_slice(&code.to_be_bytes());
        client.read_exact(&mut message[8..]).await?;
        return Ok(message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_whole_wherever_the_stream_is_cut() {
        let sent = [
            Frame::new(b'Q', b"BEGIN\0"),
            Frame::new(b'S', b""),
            Frame::new(b'B', b"\0s1\0rest"),
        ];
        let stream: Vec<u8> = sent.iter().flat_map(|it| it.bytes.clone()).collect();

        for cut in 0..stream.len() {
            let mut frames = Frames::default();
            let mut seen = Vec::new();
            for piece in [&stream[..cut], &stream[cut..]] {
                frames.push(piece);
                seen.extend(std::iter::from_fn(|| frames.pop()));
            }
            assert_eq!(seen, sent, "cut after {cut} bytes");
        }
    }

    #[test]
    fn a_message_is_read_as_it_was_made() {
        let frame = Frame::new(b'P', b"s1\0SELECT 1\0\0\0");

        assert_eq!(frame.kind(), b'P');
        assert_eq!(frame.as_bytes()[..5], *b"P\0\0\0\x12");
        let texts: Vec<&[u8]> = frame.texts().take(2).collect();
        assert_eq!(texts, [&b"s1"[..], b"SELECT 1"]);
    }

    #[tokio::test]
    async fn a_client_that_asks_for_encryption_is_told_that_there_is_none() {
        let (mut client, mut proxy) = tokio::io::duplex(64);
        client
            .write_all(b"\0\0\0\x08\x04\xd2\x16\x2f")
            .await
            .unwrap();
        client.write_all(b"\0\0\0\x0a\0\x03\0\0x\0").await.unwrap();

        let startup = read_startup(&mut proxy).await.unwrap();
        let answer = client.read_u8().await.unwrap();

        assert_eq!(startup, b"\0\0\0\x0a\0\x03\0\0x\0");
        assert_eq!(answer, b'N');
    }
}
