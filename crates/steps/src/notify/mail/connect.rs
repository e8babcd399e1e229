//! Connections to mail servers. What a server sends is counted beneath the protocol, because a line
//! is held until it ends.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream};
use lettre::transport::smtp::extension::ClientId;
use rustls::pki_types::ServerName;
use semel_model::Fault;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{CONNECT_PATIENCE, refused};
use crate::tls;
use crate::wire::{Meter, Wire};

/// The most bytes that a server may send while it takes one mail.
const EXCHANGE_BYTES_MAX: usize = 256 << 10;

impl AsyncTokioStream for Wire<TcpStream> {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream().peer_addr()
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
        None => Box::new(Wire::new(stream, meter)),
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
