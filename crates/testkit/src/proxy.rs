//! A TCP proxy that breaks wires on demand, for PostgreSQL and HTTP alike.
//!
//! It stands in the test's own process, so that a test can say exactly when a wire breaks: hold the
//! answers, wait until one is held, cut. That is a commit whose acknowledgement was lost.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use self::commits::Commits;

mod commits;

/// How many bytes are carried at a time.
const CHUNK_BYTES: usize = 16 * 1024;

/// How long a wire must be quiet before it counts as answered, where its answers are lost.
const QUIET: Duration = Duration::from_millis(30);

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

/// What happens to the server's answers.
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
    losses: Mutex<HashMap<String, Losses>>,
}

/// Which answers to one kind of statement are lost.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    // How many pass before the next is lost, where one is to be.
    passes: Option<u64>,
    every: bool,
    lost: u64,
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
            losses: Mutex::default(),
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

    /// Keeps the answers to writers' commits: a wire that one goes over answers nothing from then
    /// on, while all others are carried. For PostgreSQL, whose clients spell out `COMMIT` or say of
    /// a statement that it commits alone.
    pub fn hold_commits(&self) {
        self.wires.held.send_replace(0);
        self.change(|state| state.commits_held = true);
    }

    /// Loses an answer to a kind of statement that commits alone: so many pass, the next is carried
    /// out and never answered, and its wire is cut.
    pub fn lose_answer(&self, kind: &str, passes: u64) {
        self.wires.plan(kind, |losses| losses.passes = Some(passes));
    }

    /// Loses every answer to a kind of statement from now on, or no more of them.
    pub fn lose_every_answer(&self, kind: &str, every: bool) {
        self.wires.plan(kind, |losses| losses.every = every);
    }

    /// How many answers to a kind of statement were lost.
    pub fn lost_answers(&self, kind: &str) -> u64 {
        let mut lost = 0;
        self.wires.plan(kind, |losses| lost = losses.lost);
        lost
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
    let (committed, doomed) = (AtomicBool::new(false), AtomicBool::new(false));
    let severed = {
        let (client_reader, client_writer) = client.split();
        let (server_reader, server_writer) = server.split();
        let requests = carry_requests(&wires, (&committed, &doomed), client_reader, server_writer);
        let answers = carry_answers(&wires, (&committed, &doomed), server_reader, client_writer);
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
    (committed, doomed): (&AtomicBool, &AtomicBool),
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
        if wires.loses(&commits.list(&chunk[..allowed])) {
            doomed.store(true, Ordering::SeqCst);
        }
        to.write_all(&chunk[..allowed]).await.map_err(|_| Severed)?;
        if allowed < read {
            return Err(Severed);
        }
    }
}

async fn carry_answers(
    wires: &Wires,
    (committed, doomed): (&AtomicBool, &AtomicBool),
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
        if doomed.load(Ordering::SeqCst) {
            // Until the server has nothing more to say, so that what was asked is carried out.
            while let Ok(Ok(1..)) = timeout(QUIET, from.read(&mut chunk)).await {}
            return Err(Severed);
        }
        if committed.load(Ordering::SeqCst) {
            wires.await_commits().await;
            committed.store(false, Ordering::SeqCst);
        }
        if wires.may_answer().await {
            to.write_all(&chunk[..read]).await.map_err(|_| Severed)?;
        }
    }
}

impl Wires {
    fn plan(&self, kind: &str, change: impl FnOnce(&mut Losses)) {
        let mut losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        change(losses.entry(kind.to_owned()).or_default());
    }

    /// Whether an answer to one of these is to be lost.
    fn loses(&self, kinds: &[&str]) -> bool {
        let mut loses = false;
        for kind in kinds {
            self.plan(kind, |losses| {
                let is_next = losses.passes == Some(0);
                losses.passes = losses.passes.and_then(|passes| passes.checked_sub(1));
                if is_next || losses.every {
                    losses.lost += 1;
                    loses = true;
                }
            });
        }
        loses
    }

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
