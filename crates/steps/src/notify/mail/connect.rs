//! Connections to mail servers. What a server sends is counted beneath the protocol, because a line
//! is held until it ends.
//!
//! An answer counts only if it came over the connection in its present state: bytes that came before
//! the encryption began are read by TLS, which refuses them, and never by the protocol above it.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream};
use lettre::transport::smtp::extension::ClientId;
use rustls::pki_types::ServerName;
use semel_model::Fault;
use tokio::io::{AsyncBufRead as _, AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{CONNECT_PATIENCE, refused};
use crate::tls;
use crate::wire::{Meter, Wire};

/// The most bytes that a server may send while it takes one mail.
const EXCHANGE_BYTES_MAX: usize = 256 << 10;

/// A connection that is not encrypted, or not yet. A read gives one line at most: lettre reads into a
/// buffer that it keeps when STARTTLS puts TLS beneath it, and an answer is over with its last line. So
/// that buffer is empty then, and TLS finds what came behind the line, where its handshake should be.
#[derive(Debug)]
struct LineByLine(BufReader<Wire<TcpStream>>);

impl AsyncTokioStream for LineByLine {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().stream().peer_addr()
    }
}

impl AsyncRead for LineByLine {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut held = Pin::new(&mut self.get_mut().0);
        let came = ready!(held.as_mut().poll_fill_buf(context))?;
        let line_end = came.iter().position(|byte| *byte == b'\n');
        let bytes = line_end.map_or(came.len(), |at| at + 1);
        let bytes = bytes.min(buffer.remaining());
        buffer.put_slice(&came[..bytes]);
        held.consume(bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for LineByLine {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(context)
    }
}

impl AsyncTokioStream for Wire<TlsStream<TcpStream>> {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream().get_ref().0.peer_addr()
    }
}

/// A server that has greeted us, at the first of the addresses that answers. Encrypted from the
/// first byte where a name is given, which the certificate has to have.
pub(super) async fn connect(
    addresses: &[SocketAddr],
    encrypted_for: Option<&str>,
    us: &ClientId,
) -> Result<AsyncSmtpConnection, Fault> {
    let stream = dial(addresses).await?;
    let meter = Arc::new(Meter::of(EXCHANGE_BYTES_MAX));
    let stream: Box<dyn AsyncTokioStream> = match encrypted_for {
        Some(host) => Box::new(Wire::new(encrypt(stream, host).await?, meter)),
        None => Box::new(LineByLine(BufReader::new(Wire::new(stream, meter)))),
    };
    let greeted = AsyncSmtpConnection::connect_with_transport(stream, us).await;
    greeted.map_err(refused)
}

async fn dial(addresses: &[SocketAddr]) -> Result<TcpStream, Fault> {
    let mut last = broken(&"no address");
    for address in addresses {
        match timeout(CONNECT_PATIENCE, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = broken(&error),
            Err(_) => last = broken(&"timed out"),
        }
    }
    Err(last)
}

async fn encrypt(stream: TcpStream, host: &str) -> Result<TlsStream<TcpStream>, Fault> {
    let config = tls::trusting(Vec::new()).map_err(|error| broken(&error))?;
    let name = ServerName::try_from(host.to_owned()).map_err(|error| broken(&error))?;
    let connector = TlsConnector::from(Arc::new(config.with_no_client_auth()));
    let encrypted = connector.connect(name, stream).await;
    encrypted.map_err(|error| broken(&error))
}

fn broken(why: &dyn Display) -> Fault {
    Fault::passing(
        "no-connection",
        format!("cannot connect to the server: {why}"),
    )
}
