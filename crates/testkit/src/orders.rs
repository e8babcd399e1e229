//! Every order: two commands whose statements reach PostgreSQL in each order, instead of many tries that hope for one.
//!
//! PostgreSQL tests itself so (`isolationtester`). Here each actor is a whole command, on an engine of its own behind a
//! `gate` of its own, and a step is a group of messages that the server answers together. An order is a list
//! of numbers: which actor's next group goes. Each entry does one of these:
//!
//! ```text
//! the actor stands at its gate ──▶ its group goes, and is answered, or waits for a lock
//! it waits for a lock ───────────▶ it yields to the next entry
//! it asks what it asked last ────▶ the same: it waits for the other by looking
//! its command is over ───────────▶ the entry is skipped
//! ```
//!
//! An actor that does none of these is a hang, and red. What the list leaves goes in turns; then the gates are open, and
//! the test judges. An order is played by itself with [`VARIABLE`].
//!
//! Writers merge callers and wires name no actor, so two actors share no engine. An engine that is played has no services:
//! their statements are no part of the race, and would be held. The orders are counted on the wire, and too few are red.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::Client;

use self::schedules::Schedules;
use crate::gate::{Gate, LOCKS, Passed, Record, Touched};
use crate::{Database, Server, patience};

mod schedules;

/// The variable that plays one order alone: its list, as a red one prints it.
pub const VARIABLE: &str = "SEMEL_TEST_ORDER";

/// The variable that says how many orders of a pair are played.
pub const COUNT_VARIABLE: &str = "SEMEL_ORDERS";

/// How many orders of a pair are played with every change.
const COUNT: usize = 20;

/// How often it is looked whether a session that does not answer waits for a lock.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The most groups of one actor in an order. One that asks again and again would have any number.
const GROUPS_MAX: usize = 60;

/// After how many lists that were orders seen before there are no others to be seen: where one actor waits for the
/// other's lock, many lists are one order.
const NOTHING_NEW_MAX: usize = 20;

/// What one actor does.
pub type Command = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// Two commands, and what has to be true after them.
pub trait Scene {
    /// Prepares a new run, and gives the command of each actor. The gates are open.
    fn begin(&mut self) -> impl Future<Output = Result<[Command; 2]>>;

    /// Fails where something is wrong after both commands. The gates are open.
    fn judge(&mut self) -> impl Future<Output = Result<()>>;
}

/// A pair of commands to play.
#[derive(Clone, Copy, Debug)]
pub struct Orders<'a> {
    /// Names the pair. The seed of drawn orders follows from it.
    pub pair: &'a str,
    /// Orders that were red once. They are always played.
    pub red: &'a [&'a [u8]],
    /// How many orders are seen at the least, where fewer are possible than are asked for: one that locks the other's
    /// rows first goes wholly between two of its groups.
    pub least: usize,
}

/// What was played of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenOrders {
    /// How many different orders the wires carried.
    pub seen: usize,
    /// How many groups of each actor were held for their turn.
    pub groups: [usize; 2],
}

/// A database behind two gates.
#[derive(Debug)]
pub struct Stage {
    gates: [Gate; 2],
    record: Record,
    /// Looks into the lock table, past the gates.
    watcher: Client,
    database: String,
}

/// Where an actor stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    AtGate,
    Blocked,
    Ended,
}

/// What came of one list.
#[derive(Debug, Default)]
struct Walk {
    /// Whose groups went, in their order.
    went: Vec<u8>,
    /// What each actor said last.
    said: [String; 2],
}

/// How many orders of a pair are asked for.
fn asked() -> usize {
    let said = std::env::var(COUNT_VARIABLE).ok();
    said.and_then(|text| text.parse().ok()).unwrap_or(COUNT)
}

impl Stage {
    /// Puts two gates in front of a database.
    pub async fn of(database: &Database) -> Result<Self> {
        let watcher = database.connect().await?;
        let tables = "SELECT relname::text FROM pg_class
                       WHERE relkind IN ('r', 'p') AND NOT relispartition
                         AND relnamespace = 'public'::regnamespace";
        let tables = watcher.query(tables, &[]).await?;
        let mut tables: BTreeSet<String> = tables.iter().map(|row| row.get(0)).collect();
        tables.insert(LOCKS.to_owned());
        let (tables, record) = (Arc::new(tables), Record::default());
        let target = database.server().address();
        let gate = |actor| Gate::start(target, tables.clone(), actor, record.clone());
        Ok(Self {
            gates: [gate(0).await?, gate(1).await?],
            record,
            watcher,
            database: database.name().to_owned(),
        })
    }

    /// Where an actor reaches the database.
    pub fn url(&self, actor: usize) -> String {
        Server::url_at(self.gates[actor].address(), &self.database)
    }

    /// Plays a pair in as many orders as are asked for, or in all that there are. Fails at the first that is red, and
    /// where the wires carried fewer.
    pub async fn play(&self, orders: Orders<'_>, scene: &mut impl Scene) -> Result<SeenOrders> {
        let asked = asked();
        let (touched, groups) = self.learn(orders.pair, scene).await?;
        if let Ok(alone) = std::env::var(VARIABLE) {
            let schedule = read_schedule(&alone)?;
            self.act(orders.pair, &schedule, Some(&touched), scene)
                .await?;
            return Ok(SeenOrders { seen: 1, groups });
        }
        let mut schedules = Schedules::new(orders.pair, groups, orders.red);
        let mut seen = BTreeSet::new();
        let mut nothing_new = 0;
        while (seen.len() < asked && nothing_new < NOTHING_NEW_MAX) || schedules.has_first() {
            let Some(schedule) = schedules.next() else {
                break;
            };
            let passed = self
                .act(orders.pair, &schedule, Some(&touched), scene)
                .await?;
            match seen.insert(on_the_wire(&passed)) {
                true => nothing_new = 0,
                false => nothing_new += 1,
            }
        }
        let (pair, count, possible) = (orders.pair, seen.len(), schedules.possible);
        eprintln!("orders of {pair}: {count} seen, {asked} asked for, {possible} possible");
        let least = orders.least.min(asked);
        ensure!(
            count >= least,
            "{pair}: the wires carried {count} orders, and {least} were asked for"
        );
        Ok(SeenOrders {
            seen: count,
            groups,
        })
    }

    /// Plays each actor wholly before the other, and learns which tables each is about, and how many of its groups meet
    /// the other's.
    async fn learn(
        &self,
        pair: &str,
        scene: &mut impl Scene,
    ) -> Result<([Touched; 2], [usize; 2])> {
        let mut touched = [Touched::default(), Touched::default()];
        let mut played = Vec::new();
        // Twice: what an engine reads once and keeps is in the first round alone.
        for _ in 0..2 {
            played.clear();
            for first in [0_u8, 1] {
                let schedule = [vec![first; GROUPS_MAX], vec![1 - first; GROUPS_MAX]].concat();
                played.push(self.act(pair, &schedule, None, scene).await?);
            }
            for passed in played.iter().flatten() {
                touched[passed.actor].add(&passed.touched);
            }
        }
        let mut groups = [0; 2];
        for passed in &played {
            for (actor, most) in groups.iter_mut().enumerate() {
                let other = &touched[1 - actor];
                let mine = passed.iter().filter(|it| it.actor == actor);
                let count = mine.filter(|it| it.touched.meets(other)).count();
                *most = count.clamp(*most, GROUPS_MAX);
            }
        }
        ensure!(
            !groups.contains(&0),
            "{pair}: no statement of one actor meets one of the other: {groups:?}"
        );
        Ok((touched, groups))
    }

    /// Plays one order. Gives what went through the gates.
    async fn act(
        &self,
        pair: &str,
        schedule: &[u8],
        touched: Option<&[Touched; 2]>,
        scene: &mut impl Scene,
    ) -> Result<Vec<Passed>> {
        let [first, second] = scene.begin().await.context("cannot prepare an order")?;
        self.take_record();
        for (actor, gate) in self.gates.iter().enumerate() {
            gate.close(touched.map(|touched| touched[1 - actor].clone()));
        }
        let commands = [
            tokio::spawn(self.gates[0].note_end(first)),
            tokio::spawn(self.gates[1].note_end(second)),
        ];
        let walked = self.walk(schedule).await;
        let passed = self.take_record();
        self.gates.iter().for_each(Gate::open);
        let judged = async {
            let walk = walked?;
            for (actor, command) in commands.into_iter().enumerate() {
                let end = finish(command).await;
                end.with_context(|| format!("the command of actor {actor} failed"))?;
            }
            let wire = on_the_wire(&passed);
            ensure!(
                wire == walk.went,
                "the wires carried {wire:?}, not what was let go: {walk:?}"
            );
            scene.judge().await
        };
        judged
            .await
            .with_context(|| describe(pair, schedule, &passed))?;
        Ok(passed)
    }

    /// Lets groups go as the list says. What it leaves goes in turns, so that each order is one to its end.
    async fn walk(&self, schedule: &[u8]) -> Result<Walk> {
        let mut walk = Walk::default();
        for actor in schedule {
            let stands = self.stand_still().await?;
            if stands == [Stand::Ended; 2] {
                break;
            }
            let other_waits = stands[usize::from(1 - *actor)] == Stand::AtGate;
            let yields = other_waits && self.asks_again(*actor, &walk);
            if stands[usize::from(*actor)] == Stand::AtGate && !yields {
                self.let_go(*actor, &mut walk)?;
            }
        }
        while walk.went.len() < schedule.len() + GROUPS_MAX {
            let stands = self.stand_still().await?;
            let is_next = |actor: &u8| stands[usize::from(*actor)] == Stand::AtGate;
            let last = walk.went.last().copied().unwrap_or_default();
            let ready = [1 - last, last].into_iter().filter(is_next);
            let next = ready.min_by_key(|actor| self.asks_again(*actor, &walk));
            let Some(actor) = next else {
                break;
            };
            self.let_go(actor, &mut walk)?;
        }
        Ok(walk)
    }

    fn let_go(&self, actor: u8, walk: &mut Walk) -> Result<()> {
        let group = self.gates[usize::from(actor)].let_go();
        let group = group.with_context(|| format!("nothing waits at the gate of actor {actor}"))?;
        walk.went.push(actor);
        walk.said[usize::from(actor)] = group;
        Ok(())
    }

    /// Whether an actor would say what it said last: it waits for the other by asking again and again.
    fn asks_again(&self, actor: u8, walk: &Walk) -> bool {
        let next = self.gates[usize::from(actor)].standing().next;
        next.is_some_and(|next| next == walk.said[usize::from(actor)])
    }

    /// Waits until neither actor moves.
    async fn stand_still(&self) -> Result<[Stand; 2]> {
        loop {
            let (first, second) = (self.stand(0).await?, self.stand(1).await?);
            // What the second did meanwhile may have freed it.
            if self.stand(0).await? == first {
                return Ok([first, second]);
            }
        }
    }

    /// Waits until an actor is at its gate, waits for a lock, or has ended.
    async fn stand(&self, actor: usize) -> Result<Stand> {
        let (gate, begun) = (&self.gates[actor], Instant::now());
        let mut changes = gate.changes();
        loop {
            let standing = gate.standing();
            let at_rest = match (standing.next.is_some(), standing.has_ended) {
                (true, _) => Some(Stand::AtGate),
                (false, true) => Some(Stand::Ended),
                (false, false) => None,
            };
            if let (Some(stand), true) = (at_rest, standing.asked.is_empty()) {
                return Ok(stand);
            }
            let has_changed = timeout(LOOK_EVERY, changes.changed()).await.is_ok();
            let may_wait = !has_changed && !standing.asked.is_empty();
            if may_wait && self.are_blocked(&standing.asked).await? && gate.standing() == standing {
                return Ok(match standing.next {
                    Some(_) => Stand::AtGate,
                    None => Stand::Blocked,
                });
            }
            if begun.elapsed() > patience() {
                bail!("actor {actor} is not at its gate, nor blocked, nor over: {standing:?}");
            }
        }
    }

    /// Whether each of these sessions waits for another.
    async fn are_blocked(&self, sessions: &[i32]) -> Result<bool> {
        let free = "SELECT count(*) FROM unnest($1::int4[]) AS s (process)
                     WHERE cardinality(pg_blocking_pids(s.process)) = 0";
        let free: i64 = self.watcher.query_one(free, &[&sessions]).await?.get(0);
        Ok(free == 0)
    }

    fn take_record(&self) -> Vec<Passed> {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *record)
    }
}

async fn finish(command: JoinHandle<Result<()>>) -> Result<()> {
    let end = timeout(patience(), command).await;
    end.context("it goes on, although everything was let go")??
}

/// The order in which the wires carried what was held.
fn on_the_wire(passed: &[Passed]) -> Vec<u8> {
    let held = passed.iter().filter(|it| it.was_held);
    held.map(|it| u8::from(it.actor == 1)).collect()
}

fn read_schedule(text: &str) -> Result<Vec<u8>> {
    let entries = text.split(',').map(|entry| match entry.trim() {
        "0" => Ok(0),
        "1" => Ok(1),
        other => bail!("{VARIABLE} is a list of 0 and 1, not of {other:?}"),
    });
    entries.collect()
}

/// The order, and how to play it again.
fn describe(pair: &str, schedule: &[u8], passed: &[Passed]) -> String {
    let entries: Vec<String> = schedule.iter().map(u8::to_string).collect();
    let held = passed.iter().filter(|it| it.was_held);
    let lines: Vec<String> = held
        .map(|it| format!("  {}: {}", it.actor, it.label))
        .collect();
    format!(
        "an order of {pair} is red; {VARIABLE}={} plays it alone. The wires carried\n{}\n",
        entries.join(","),
        lines.join("\n")
    )
}
