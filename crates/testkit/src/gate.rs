//! A gate: a proxy in front of PostgreSQL that carries one actor's statements, and holds each until it is let go.
//!
//! ```text
//! open ────▶ everything is carried
//! closed ──▶ a group about tables that the other actor changes (or that it changes and the other reads) is held;
//!            preparations, the checks of pools, what begins a transaction, and statements on other tables pass
//! ```
//!
//! A group is what the server answers together: the messages up to their `Sync`, or a `Query`. It is answered when its
//! `ReadyForQuery` has come back. The gate answers a request for encryption itself, and makes the limits of each session
//! a hundredfold, because a session that is held must not end by its own limits.
//!
//! `orders.rs` says which actor's group goes next.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::frames::{Frames, read_startup};
use self::groups::{Group, Groups};

mod frames;
mod groups;

pub(crate) use groups::{LOCKS, Touched};

/// How many bytes are carried at a time.
const CHUNK_BYTES: usize = 16 * 1024;

/// A group that went through a gate while it was closed.
#[derive(Clone, Debug)]
pub(crate) struct Passed {
    /// The actor behind the gate.
    pub(crate) actor: usize,
    /// Its statements, for people.
    pub(crate) label: String,
    /// The tables that it is about.
    pub(crate) touched: Touched,
    /// Whether it was held until its turn.
    pub(crate) was_held: bool,
}

/// The groups that went through the gates of one stage, in the order in which the wires carried them.
pub(crate) type Record = Arc<Mutex<Vec<Passed>>>;

/// A proxy that holds groups.
#[derive(Debug)]
pub(crate) struct Gate {
    address: SocketAddr,
    wires: Arc<Wires>,
    listener: JoinHandle<()>,
}

/// Where the actor behind a gate stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ActorPosition {
    /// The statements of the group that waits for its turn.
    pub(crate) next: Option<String>,
    /// The sessions that have not answered it, by the numbers of their processes.
    pub(crate) asked: Vec<i32>,
    /// Whether its command is over.
    pub(crate) has_ended: bool,
}

#[derive(Clone, Debug)]
enum Mode {
    Open,
    /// Holds what meets this; everything that names a table where it is not known.
    Closed(Option<Touched>),
}

#[derive(Debug)]
struct State {
    mode: Mode,
    has_ended: bool,
    wires: BTreeMap<u64, Wire>,
    /// How many wires there were, and how many groups were held.
    wire_count: u64,
    held_count: u64,
}

/// One connection.
#[derive(Debug, Default)]
struct Wire {
    /// The process of the session, once the server has named it.
    process: Option<i32>,
    /// The group that waits for its turn: its number, and its statements.
    held: Option<(u64, String)>,
    /// How many answers are on their way.
    unanswered: u32,
}

#[derive(Debug)]
struct Wires {
    target: SocketAddr,
    actor: usize,
    tables: Arc<BTreeSet<String>>,
    record: Record,
    state: Mutex<State>,
    changes: watch::Sender<u64>,
}

impl Gate {
    /// Stands open in front of a server whose database has these tables.
    pub(crate) async fn start(
        target: SocketAddr,
        tables: Arc<BTreeSet<String>>,
        actor: usize,
        record: Record,
    ) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let state = State {
            mode: Mode::Open,
            has_ended: false,
            wires: BTreeMap::new(),
            wire_count: 0,
            held_count: 0,
        };
        let wires = Arc::new(Wires {
            target,
            actor,
            tables,
            record,
            state: Mutex::new(state),
            changes: watch::Sender::new(0),
        });
        let listener = tokio::spawn(accept(listener, wires.clone()));
        Ok(Self {
            address,
            wires,
            listener,
        })
    }

    /// Where the actor connects.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Holds from now on what meets the statements of the other actor, or all statements where those are not known yet.
    /// The actor's command begins.
    pub(crate) fn close(&self, other: Option<Touched>) {
        self.wires.change(|state| {
            state.mode = Mode::Closed(other);
            state.has_ended = false;
        });
    }

    /// Lets everything go, now and from now on.
    pub(crate) fn open(&self) {
        self.wires.change(|state| state.mode = Mode::Open);
    }

    /// Lets the group go that has waited longest, and gives its statements.
    pub(crate) fn let_go(&self) -> Option<String> {
        self.wires.change(|state| {
            let wires = state.wires.values_mut();
            let held = wires.filter(|wire| wire.held.is_some());
            let first = held.min_by_key(|wire| wire.number())?;
            first.unanswered += 1;
            first.held.take().map(|(_, label)| label)
        })
    }

    /// Carries a command out, and notes its end.
    pub(crate) fn note_end<T, F>(&self, command: F) -> impl Future<Output = T> + Send + use<T, F>
    where
        T: Send,
        F: Future<Output = T> + Send,
    {
        let wires = self.wires.clone();
        async move {
            let end = command.await;
            wires.change(|state| state.has_ended = true);
            end
        }
    }

    /// Where the actor stands.
    pub(crate) fn standing(&self) -> ActorPosition {
        let state = self.wires.lock();
        let wires = state.wires.values();
        let asked = wires.clone().filter(|wire| wire.unanswered > 0);
        let held = wires.clone().filter(|wire| wire.held.is_some());
        let next = held.min_by_key(|wire| wire.number());
        ActorPosition {
            next: next.and_then(|wire| wire.held.as_ref().map(|(_, label)| label.clone())),
            // The server itself has no session 0, so nothing blocks a wire that is not connected yet.
            asked: asked.map(|wire| wire.process.unwrap_or_default()).collect(),
            has_ended: state.has_ended,
        }
    }

    /// Tells of each change of where the actor stands.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.wires.changes.subscribe()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.listener.abort();
        self.open();
    }
}

impl Wires {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes where the actor stands, and tells of it.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.lock());
        self.changes.send_modify(|changes| *changes += 1);
        changed
    }

    fn change_wire(&self, number: u64, change: impl FnOnce(&mut Wire)) {
        self.change(|state| {
            if let Some(wire) = state.wires.get_mut(&number) {
                change(wire);
            }
        });
    }

    /// Waits until a group may go on, and notes that it does.
    async fn admit(&self, number: u64, group: &Group) {
        let mut changes = self.changes.subscribe();
        let (is_closed, is_held) = self.change(|state| {
            let is_closed = matches!(state.mode, Mode::Closed(_));
            let is_held = state.holds(group);
            state.held_count += u64::from(is_held);
            let count = state.held_count;
            if let Some(wire) = state.wires.get_mut(&number) {
                match is_held {
                    true => wire.held = Some((count, group.label())),
                    false => wire.unanswered += u32::from(group.is_answered),
                }
            }
            (is_closed, is_held)
        });
        while is_held && self.is_held(number) && changes.changed().await.is_ok() {}
        if is_closed {
            let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
            record.push(Passed {
                actor: self.actor,
                label: group.label(),
                touched: group.touched.clone(),
                was_held: is_held,
            });
        }
    }

    /// Whether a wire's group still waits. An open gate lets it go.
    fn is_held(&self, number: u64) -> bool {
        let mut state = self.lock();
        let is_open = matches!(state.mode, Mode::Open);
        let Some(wire) = state.wires.get_mut(&number) else {
            return false;
        };
        if is_open && wire.held.take().is_some() {
            wire.unanswered += 1;
        }
        wire.held.is_some()
    }
}

impl Wire {
    fn number(&self) -> Option<u64> {
        self.held.as_ref().map(|(number, _)| *number)
    }
}

impl State {
    fn holds(&self, group: &Group) -> bool {
        match &self.mode {
            Mode::Open => false,
            Mode::Closed(Some(other)) => group.is_answered && group.touched.meets(other),
            Mode::Closed(None) => group.is_answered && !group.touched.is_empty(),
        }
    }
}

async fn accept(listener: TcpListener, wires: Arc<Wires>) {
    while let Ok((client, _)) = listener.accept().await {
        let number = wires.change(|state| {
            state.wire_count += 1;
            // What a new session says first ends with a `ReadyForQuery` as well.
            let connecting = Wire {
                unanswered: 1,
                ..Wire::default()
            };
            state.wires.insert(state.wire_count, connecting);
            state.wire_count
        });
        let wires = wires.clone();
        tokio::spawn(async move {
            // Either end may go at any time.
            carry(&wires, number, client).await.ok();
            wires.change(|state| state.wires.remove(&number));
        });
    }
}

/// Carries one connection until one of its ends is closed.
async fn carry(wires: &Wires, number: u64, mut client: TcpStream) -> Result<()> {
    let startup = read_startup(&mut client).await?;
    let mut server = TcpStream::connect(wires.target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    server.write_all(&startup).await?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        end = carry_groups(wires, number, from_client, to_server) => end,
        end = carry_answers(wires, number, from_server, to_client) => end,
    }
}

async fn carry_groups(
    wires: &Wires,
    number: u64,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
) -> Result<()> {
    let (mut frames, mut groups) = (Frames::default(), Groups::new(wires.tables.clone()));
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = from.read(&mut chunk).await?;
        if read == 0 {
            return Ok(());
        }
        frames.push(&chunk[..read]);
        while let Some(frame) = frames.pop() {
            if let Some(group) = groups.push(&frame) {
                wires.admit(number, &group).await;
                to.write_all(group.as_bytes()).await?;
            }
        }
    }
}

async fn carry_answers(
    wires: &Wires,
    number: u64,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
) -> Result<()> {
    let mut frames = Frames::default();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = from.read(&mut chunk).await?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&chunk[..read]).await?;
        frames.push(&chunk[..read]);
        while let Some(frame) = frames.pop() {
            match (frame.kind(), frame.body().first_chunk::<4>()) {
                // BackendKeyData.
                (b'K', Some(process)) => {
                    let process = Some(i32::from_be_bytes(*process));
                    wires.change_wire(number, |wire| wire.process = process);
                }
                // ReadyForQuery.
                (b'Z', _) => wires.change_wire(number, |wire| {
                    wire.unanswered = wire.unanswered.saturating_sub(1);
                }),
                _ => {}
            }
        }
    }
}
