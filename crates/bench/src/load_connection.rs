//! One kept HTTP/1.1 connection that costs next to nothing.
//!
//! The generator shares its cores with what it measures, so it must be cheap: one buffer each way,
//! no header map, no task besides the caller's. It reads what our servers write, nothing more.

use std::io::Write as _;
use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The most bytes of an answer's head and body together.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// A connection.
pub(crate) struct LoadConnection {
    stream: TcpStream,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    consumed: usize,
}

/// An answer, as far as a generator looks at it.
pub(crate) struct Answer<'a> {
    /// The status.
    pub(crate) status: u16,
    /// The body.
    pub(crate) body: &'a [u8],
}

impl LoadConnection {
    /// Opens a connection.
    pub(crate) async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)
            .await
            .with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            outgoing: Vec::with_capacity(1024),
            incoming: Vec::with_capacity(4096),
            consumed: 0,
        })
    }

    /// Posts JSON and reads the whole answer. `headers` are whole lines, each with its line end.
    pub(crate) async fn post(
        &mut self,
        path: &str,
        headers: &str,
        body: &str,
    ) -> Result<Answer<'_>> {
        self.outgoing.clear();
        write!(
            self.outgoing,
            "POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n\
             {headers}content-length: {}\r\n\r\n{body}",
            body.len()
        )?;
        self.stream.write_all(&self.outgoing).await?;
        self.incoming.drain(..self.consumed);
        self.consumed = 0;
        let (status, start, end) = loop {
            if let Some(found) = read_answer(&self.incoming)? {
                break found;
            }
            ensure!(
                self.incoming.len() < ANSWER_BYTES_MAX,
                "an answer without end"
            );
            if self.stream.read_buf(&mut self.incoming).await? == 0 {
                bail!("the server closed the connection");
            }
        };
        self.consumed = end;
        Ok(Answer {
            status,
            body: &self.incoming[start..end],
        })
    }
}

/// The status and where the body lies, once all of it is there.
fn read_answer(bytes: &[u8]) -> Result<Option<(u16, usize, usize)>> {
    let Some(head_end) = find(bytes, b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&bytes[..head_end])?;
    let status = head
        .get(9..12)
        .context("a status line")?
        .parse()
        .context("a status")?;
    let length = head
        .split("\r\n")
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map_or(Ok(0), |(_, value)| value.trim().parse::<usize>())?;
    let start = head_end + 4;
    let end = start + length;
    Ok((bytes.len() >= end).then_some((status, start, end)))
}

/// Where `wanted` begins.
pub(crate) fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_once_it_is_whole() {
        let whole = b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\nokHTTP";

        assert_eq!(read_answer(&whole[..30]).unwrap(), None);
        let (status, start, end) = read_answer(whole).unwrap().unwrap();
        assert_eq!((status, &whole[start..end]), (202, &b"ok"[..]));
    }
}
