//! One connection to a database of others: made to a checked place, and asked whose database answers.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use semel_model::{DatabaseIdentity, Fault};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{LINK_BYTES_MAX, WIRE_BYTES_MAX, classify};
use crate::egress::{self, Egress};
use crate::wire::{Cut, LargeAnswers, Meter, SMALL_BYTES, Wire};

/// How long a connection may take to stand.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// How long sent bytes may stay unacknowledged before the connection counts as broken.
const WIRE_PATIENCE: Duration = Duration::from_secs(10);

/// The server's identity. Every name is qualified: a role may have a search path of its own.
const IDENTITY: &str = "
    SELECT s.system_identifier,
           (SELECT d.oid FROM pg_catalog.pg_database d
             WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
      FROM pg_catalog.pg_control_system() s";

/// A place that a destination's connections may go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Addresses that were checked.
    Addresses(Vec<SocketAddr>),
    /// A socket in a folder that is allowed.
    Socket(PathBuf),
}

impl Place {
    /// Whether connections to this place are right for a destination that is at `now`.
    pub(super) fn is_within(&self, now: &Self) -> bool {
        match (self, now) {
            (Self::Addresses(kept), Self::Addresses(now)) => {
                kept.iter().all(|address| now.contains(address))
            }
            (Self::Socket(kept), Self::Socket(now)) => kept == now,
            (Self::Addresses(_), Self::Socket(_)) | (Self::Socket(_), Self::Addresses(_)) => false,
        }
    }
}

/// Makes the connections of one destination.
pub(super) struct Dialer {
    pub(super) config: Config,
    pub(super) place: Place,
    /// The destination's own word for its host, which its certificate has to name.
    pub(super) host: String,
    /// Absent: the exchange is not encrypted.
    pub(super) tls: Option<MakeRustlsConnect>,
    pub(super) egress: Arc<Egress>,
    /// The namespace whose share of large answers these connections use.
    pub(super) namespace_id: i32,
    pub(super) answers: Arc<LargeAnswers>,
}

/// A connection and the task that moves its bytes. Dropping it closes the socket at once.
pub(super) struct Link {
    client: Client,
    pump: AbortHandle,
    meter: Arc<Meter>,
}

impl Link {
    /// A statement's answer is next.
    pub(super) fn expect_answer(&self) {
        self.meter.allow(WIRE_BYTES_MAX);
    }

    /// Nothing large is next, and nothing large is being read: others may have the room.
    pub(super) fn expect_little(&self) {
        self.meter.allow(SMALL_BYTES);
    }

    /// Whether the connection brought a large answer, whose room the driver keeps.
    pub(super) fn is_grown(&self) -> bool {
        self.meter.is_grown()
    }

    /// Why the connection was broken off here, if it was.
    pub(super) fn cut(&self) -> Option<Cut> {
        self.meter.cut()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.pump.abort();
    }
}

impl Deref for Link {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Manager for Dialer {
    type Type = Link;
    type Error = Fault;

    async fn create(&self) -> Result<Link, Fault> {
        let addresses = match &self.place {
            Place::Socket(path) => return self.dial_socket(path).await,
            Place::Addresses(addresses) => addresses,
        };
        let mut last = Fault::passing("no-connection", "no address");
        for address in addresses {
            match self.dial(*address).await {
                Ok(link) => return Ok(link),
                Err(fault) => last = fault,
            }
        }
        Err(last)
    }

    /// Discards the session of the statement before: a search path, a role or a temporary table of its own
    /// must not lead the next effect's marker elsewhere. The round trip also finds connections that the
    /// server has closed.
    async fn recycle(&self, link: &mut Link, _: &Metrics) -> RecycleResult<Fault> {
        if link.is_closed() {
            return Err(RecycleError::message("the connection was closed"));
        }
        if link.meter.all_bytes() > LINK_BYTES_MAX {
            return Err(RecycleError::message("the connection was used enough"));
        }
        link.expect_little();
        let discarded = link.batch_execute("DISCARD ALL").await;
        discarded.map_err(|error| RecycleError::Backend(classify::fault(error)))
    }
}

impl Dialer {
    async fn dial_socket(&self, path: &Path) -> Result<Link, Fault> {
        let stream = in_time(UnixStream::connect(path)).await?;
        let link = self.begin(stream).await?;
        let found = ask_identity(&link).await?;
        if self.egress.admits_database_by_socket(found) {
            Ok(link)
        } else {
            Err(egress::own_database(&self.host))
        }
    }

    async fn dial(&self, address: SocketAddr) -> Result<Link, Fault> {
        let stream = in_time(TcpStream::connect(address)).await?;
        tune(&stream).map_err(|error| cannot_connect(&error))?;
        let link = self.begin(stream).await?;
        let found = ask_identity(&link).await?;
        if self.egress.admits_database_at(address, found) {
            Ok(link)
        } else {
            Err(egress::own_database(&self.host))
        }
    }

    /// Encrypts as the owner says, and signs in.
    async fn begin<S>(&self, stream: S) -> Result<Link, Fault>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let meter = Arc::new(Meter::of(SMALL_BYTES));
        let line = self.answers.line_of(self.namespace_id);
        let stream = Wire::new(stream, meter.clone()).in_line(line);
        let (client, pump) = match &self.tls {
            None => {
                let begun = self.config.connect_raw(stream, NoTls).await;
                let (client, connection) = begun.map_err(classify::fault)?;
                (client, pump(connection))
            }
            Some(tls) => {
                let mut tls = tls.clone();
                let made: Result<_, Infallible> =
                    MakeTlsConnect::<Wire<S>>::make_tls_connect(&mut tls, &self.host);
                let Ok(tls) = made;
                let begun = self.config.connect_raw(stream, tls).await;
                let (client, connection) = begun.map_err(classify::fault)?;
                (client, pump(connection))
            }
        };
        Ok(Link {
            client,
            pump,
            meter,
        })
    }
}

/// Moves the bytes of a connection until it ends. Its end shows in the next statement. Notices are
/// dropped here: the connection as a future would write the server's words into the log.
fn pump<S, T>(mut connection: Connection<S, T>) -> AbortHandle
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let pump = tokio::spawn(async move {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            if let Err(error) = message {
                tracing::debug!(%error, "a connection to a database of a flow ended");
                return;
            }
        }
    });
    pump.abort_handle()
}

/// The identity of the server and its database; none if the server refuses to tell it.
async fn ask_identity(client: &Client) -> Result<Option<DatabaseIdentity>, Fault> {
    let rows = match client.query_typed(IDENTITY, &[]).await {
        Ok(rows) => rows,
        Err(error) => {
            let fault = classify::fault(error);
            // Refused for good: this server does not know the question, or keeps the answer to itself.
            return if fault.retryable {
                Err(fault)
            } else {
                Ok(None)
            };
        }
    };
    let identity = rows.first().and_then(|row| {
        Some(DatabaseIdentity {
            system: row.try_get(0).ok()?,
            database: row.try_get(1).ok()?,
        })
    });
    Ok(identity)
}

async fn in_time<T>(connecting: impl Future<Output = io::Result<T>>) -> Result<T, Fault> {
    match timeout(CONNECT_PATIENCE, connecting).await {
        Ok(connected) => connected.map_err(|error| cannot_connect(&error)),
        Err(_) => Err(cannot_connect(&io::ErrorKind::TimedOut.into())),
    }
}

/// Notices a peer that is gone. Statements are small, and must not wait to be sent together.
fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    rustix::net::sockopt::set_socket_keepalive(stream, true)?;
    rustix::net::sockopt::set_tcp_keepidle(stream, WIRE_PATIENCE)?;
    #[cfg(target_os = "linux")]
    {
        let patience_ms = u32::try_from(WIRE_PATIENCE.as_millis()).unwrap_or(u32::MAX);
        rustix::net::sockopt::set_tcp_user_timeout(stream, patience_ms)?;
    }
    Ok(())
}

fn cannot_connect(error: &io::Error) -> Fault {
    Fault::passing(
        "no-connection",
        format!("cannot connect to the server: {error}"),
    )
}
