//! Controls the failpoints of a server: holds it at one of them, and lets it pass all others.
//!
//! A server of the test build reports each point to a socket and waits for a line. One point is
//! armed at a time, so a report that carries no subject still belongs to the one run that moves.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use semel_testkit::patience;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::servers::{Home, Served, faults, serve};

/// Listens for one server.
pub(crate) struct Harness {
    _folder: TempDir,
    socket: PathBuf,
    armed: Arc<Mutex<Option<Armed>>>,
    listener: JoinHandle<()>,
}

struct Armed {
    point: &'static str,
    subject: Option<String>,
    reached: oneshot::Sender<Held>,
}

/// A server that is held at a point, until this is released or dropped.
pub(crate) struct Held {
    stream: UnixStream,
}

/// A point that was armed and may have been reached.
pub(crate) struct Watch {
    what: String,
    reached: oneshot::Receiver<Held>,
}

impl Harness {
    pub(crate) fn start() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("semel-faults-").tempdir()?;
        let socket = folder.path().join("points");
        let listener = UnixListener::bind(&socket)?;
        let armed = Arc::default();
        let listener = tokio::spawn(listen(listener, Arc::clone(&armed)));
        Ok(Self {
            _folder: folder,
            socket,
            armed,
            listener,
        })
    }

    /// Where the server reports; the value of `SEMEL_FAULTS`.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Starts the test build of a server that reports here.
    pub(crate) async fn serve(&self, home: &Home, lease: &str) -> Result<Served> {
        let program = faults()?.env("SEMEL_FAULTS", self.socket());
        serve(program, &home.url(), lease).await
    }

    /// Holds the server the next time it comes to a point, for a subject where one is given.
    pub(crate) fn arm(&self, point: &'static str, subject: Option<&str>) -> Watch {
        let (reached, watch) = oneshot::channel();
        let armed = Armed {
            point,
            subject: subject.map(str::to_owned),
            reached,
        };
        *self.armed.lock().unwrap_or_else(PoisonError::into_inner) = Some(armed);
        Watch {
            what: format!("{point} {}", subject.unwrap_or_default()),
            reached: watch,
        }
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl Watch {
    /// Waits until the server stands there.
    pub(crate) async fn until_held(self) -> Result<Held> {
        let held = timeout(patience(), self.reached).await;
        held.with_context(|| format!("{} was not reached", self.what))?
            .context("another point was armed meanwhile")
    }
}

impl Held {
    /// Releases the server; harmless for a server that is dead or frozen.
    pub(crate) async fn let_go(mut self) {
        self.stream.write_all(b"go\n").await.ok();
    }
}

async fn listen(listener: UnixListener, armed: Arc<Mutex<Option<Armed>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(attend(stream, Arc::clone(&armed)));
    }
}

async fn attend(stream: UnixStream, armed: Arc<Mutex<Option<Armed>>>) {
    let mut stream = BufReader::new(stream);
    let mut report = String::new();
    if stream.read_line(&mut report).await.is_err() {
        return;
    }
    let mut words = report.trim_end().splitn(3, ' ').skip(1);
    let (point, subject) = (words.next().unwrap_or_default(), words.next());
    let held = Held {
        stream: stream.into_inner(),
    };
    let taken = {
        let mut armed = armed.lock().unwrap_or_else(PoisonError::into_inner);
        armed.take_if(|armed| {
            let named = armed.subject.is_none() || armed.subject.as_deref() == subject;
            armed.point == point && named
        })
    };
    match taken {
        // A watch that is gone lets go.
        Some(armed) => drop(armed.reached.send(held)),
        None => held.let_go().await,
    }
}
