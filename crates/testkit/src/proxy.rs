//! A TCP proxy that breaks wires on demand, for PostgreSQL and HTTP alike.
//!
//! It stands in the test's own process, so that a test can say exactly when a wire breaks: hold the
//! answers, wait until one is held, cut. That is a commit whose acknowledgement was lost.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// How many bytes are carried at a time.
const CHUNK_BYTES: usize = 16 * 1024;

/// What a client of PostgreSQL sends to end a transaction.
const COMMIT: &[u8] = b"COMMIT\0";

/// What stands in front of a prepared statement that is a transaction by itself.
const COMMITS_ALONE: &[u8] = b"\0/* commits alone */";

/// A proxy in front of one address.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    wires: Arc<Wires>,
    listener: JoinHandle<()>,
}

/// How a wire is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Both ends read an orderly end of the stream.
    Close,
    /// Both ends read a reset.
    Reset,
}

/// What becomes of the server's answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    Carried,
    Held,
    Swallowed,
}

#[derive(Clone, Copy, Debug)]
struct State {
    refusing: bool,
    answers: Answers,
    // Whether a wire that a commit goes over keeps its answers from then on.
    commits_held: bool,
    delay: Duration,
    // Wires remember the count they started under, and end when it moves on.
    cuts: u64,
    cut: Cut,
    // How many bytes may still travel to the server before the wire that brings more is cut.
    request_budget_bytes: Option<usize>,
}

#[derive(Debug)]
struct Wires {
    target: SocketAddr,
    state: watch::Sender<State>,
    held: watch::Sender<u64>,
    accepted: AtomicU64,
}

impl Proxy {
    /// Stands in front of `target`.
    pub async fn start(target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let state = State {
            refusing: false,
            answers: Answers::Carried,
            commits_held: false,
            delay: Duration::ZERO,
            cuts: 0,
            cut: Cut::Reset,
            request_budget_bytes: None,
        };
        let (state, _) = watch::channel(state);
        let (held, _) = watch::channel(0);
        let wires = Arc::new(Wires {
            target,
            state,
            held,
            accepted: AtomicU64::new(0),
        });
        let listener = tokio::spawn(accept(listener, Arc::clone(&wires)));
        Ok(Self {
            address,
            wires,
            listener,
        })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections were made so far.
    pub fn accepted(&self) -> u64 {
        self.wires.accepted.load(Ordering::Relaxed)
    }

    /// Cuts every wire there is now.
    pub fn cut(&self, cut: Cut) {
        self.change(|state| {
            state.cuts += 1;
            state.cut = cut;
        });
    }

    /// Resets new connections as soon as they are made.
    pub fn refuse(&self) {
        self.change(|state| state.refusing = true);
    }

    /// Keeps what the server answers, while requests still reach it.
    pub fn hold_answers(&self) {
        self.wires.held.send_replace(0);
        self.change(|state| state.answers = Answers::Held);
    }

    /// Keeps the answers to commits: a wire that one goes over answers nothing from then on, while
    /// all others are carried. For PostgreSQL, whose clients spell out `COMMIT` or say of a
    /// statement that it commits alone.
    pub fn hold_commits(&self) {
        self.wires.held.send_replace(0);
        self.change(|state| state.commits_held = true);
    }

    /// Throws away what the server answers. The wires are of no use afterwards: cut them.
    pub fn swallow_answers(&self) {
        self.wires.held.send_replace(0);
        self.change(|state| state.answers = Answers::Swallowed);
    }

    /// Waits until so many pieces of answers are held or swallowed.
    pub async fn until_held(&self, count: u64, within: Duration) -> Result<()> {
        let mut held = self.wires.held.subscribe();
        let reached = timeout(within, held.wait_for(|held| *held >= count)).await;
        reached.context("no answer came to be held")??;
        Ok(())
    }

    /// Carries each piece of either direction so much later.
    pub fn delay(&self, delay: Duration) {
        self.change(|state| state.delay = delay);
    }

    /// Lets so many more bytes travel to the server, over all wires, and cuts the wire that brings
    /// the next. The others stay.
    pub fn cut_requests_after(&self, bytes: usize, cut: Cut) {
        self.change(|state| {
            state.request_budget_bytes = Some(bytes);
            state.cut = cut;
        });
    }

    /// Behaves again: accepts, carries what was held, delays nothing.
    pub fn resume(&self) {
        self.change(|state| {
            state.refusing = false;
            state.answers = Answers::Carried;
            state.commits_held = false;
            state.delay = Duration::ZERO;
            state.request_budget_bytes = None;
        });
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        self.wires.state.send_modify(change);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listener.abort();
        self.cut(Cut::Reset);
    }
}

async fn accept(listener: TcpListener, wires: Arc<Wires>) {
    while let Ok((client, _)) = listener.accept().await {
        wires.accepted.fetch_add(1, Ordering::Relaxed);
        if wires.state.borrow().refusing {
            client.set_zero_linger().ok();
            continue;
        }
        tokio::spawn(carry(Arc::clone(&wires), client));
    }
}

/// Carries one connection until both ends have closed it or it is cut.
async fn carry(wires: Arc<Wires>, mut client: TcpStream) {
    let mut state = wires.state.subscribe();
    let cuts = state.borrow().cuts;
    let Ok(mut server) = TcpStream::connect(wires.target).await else {
        client.set_zero_linger().ok();
        return;
    };
    client.set_nodelay(true).ok();
    server.set_nodelay(true).ok();
    let committed = AtomicBool::new(false);
    let severed = {
        let (client_reader, client_writer) = client.split();
        let (server_reader, server_writer) = server.split();
        let requests = carry_requests(&wires, &committed, client_reader, server_writer);
        let answers = carry_answers(&wires, &committed, server_reader, client_writer);
        tokio::select! {
            ends = async { tokio::try_join!(requests, answers) } => ends.is_err(),
            _ = state.wait_for(|state| state.cuts != cuts) => true,
        }
    };
    if severed && wires.state.borrow().cut == Cut::Reset {
        client.set_zero_linger().ok();
        server.set_zero_linger().ok();
    }
}

/// The wire is broken, by an end or by us.
struct Severed;

async fn carry_requests(
    wires: &Wires,
    committed: &AtomicBool,
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
) -> Result<(), Severed> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut commits = Commits::default();
    loop {
        let read = from.read(&mut chunk).await.map_err(|_| Severed)?;
        if read == 0 {
            return to.shutdown().await.map_err(|_| Severed);
        }
        wires.await_delay().await;
        let allowed = wires.spend_budget(read);
        commits.learn(&chunk[..allowed]);
        // Before the server can answer it.
        if wires.state.borrow().commits_held && commits.are_in(&chunk[..allowed]) {
            committed.store(true, Ordering::SeqCst);
        }
        to.write_all(&chunk[..allowed]).await.map_err(|_| Severed)?;
        if allowed < read {
            return Err(Severed);
        }
    }
}

async fn carry_answers(
    wires: &Wires,
    committed: &AtomicBool,
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
) -> Result<(), Severed> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = from.read(&mut chunk).await.map_err(|_| Severed)?;
        if read == 0 {
            return to.shutdown().await.map_err(|_| Severed);
        }
        wires.await_delay().await;
        if committed.load(Ordering::SeqCst) {
            wires.await_commits().await;
            committed.store(false, Ordering::SeqCst);
        }
        if wires.may_answer().await {
            to.write_all(&chunk[..read]).await.map_err(|_| Severed)?;
        }
    }
}

/// How commits look on one wire.
#[derive(Default)]
struct Commits {
    /// A prepared statement is bound as an unnamed portal: its name stands between two zeros.
    bound: Vec<Vec<u8>>,
}

impl Commits {
    /// Learns the names of statements that commit alone, as they are prepared.
    fn learn(&mut self, bytes: &[u8]) {
        for at in 0..bytes.len().saturating_sub(COMMITS_ALONE.len()) {
            if bytes[at..].starts_with(COMMITS_ALONE) {
                // A letter and a number; what stands before is the message's length.
                let is_digit = |byte: &&u8| byte.is_ascii_digit();
                let digits = bytes[..at].iter().rev().take_while(is_digit).count();
                let mut bound = vec![0];
                bound.extend(&bytes[at.saturating_sub(digits + 1)..=at]);
                self.bound.push(bound);
            }
        }
    }

    fn are_in(&self, bytes: &[u8]) -> bool {
        let has = |wanted: &[u8]| bytes.windows(wanted.len()).any(|part| part == wanted);
        has(COMMIT) || self.bound.iter().any(|bound| has(bound))
    }
}

impl Wires {
    /// Waits while answers to commits are held.
    async fn await_commits(&self) {
        self.held.send_modify(|held| *held += 1);
        let mut state = self.state.subscribe();
        // A proxy that is gone has cut this wire.
        state.wait_for(|state| !state.commits_held).await.ok();
    }

    async fn await_delay(&self) {
        let delay = self.state.borrow().delay;
        if !delay.is_zero() {
            sleep(delay).await;
        }
    }

    /// How many of these bytes still reach the server. The fault strikes once.
    fn spend_budget(&self, wanted: usize) -> usize {
        let mut allowed = wanted;
        self.state.send_if_modified(|state| {
            let Some(left) = state.request_budget_bytes else {
                return false;
            };
            allowed = wanted.min(left);
            state.request_budget_bytes = (wanted <= left).then(|| left - wanted);
            true
        });
        allowed
    }

    /// Waits while answers are held; tells whether this one is carried in the end.
    async fn may_answer(&self) -> bool {
        if self.state.borrow().answers == Answers::Carried {
            return true;
        }
        self.held.send_modify(|held| *held += 1);
        let mut state = self.state.subscribe();
        match state.wait_for(|state| state.answers != Answers::Held).await {
            Ok(state) => state.answers == Answers::Carried,
            Err(_) => false,
        }
    }
}
