//! A month in a minute: thirty days of schedules, waits and approvals, with the clock moved in
//! leaps and servers killed on the way. Then the history is read back and compared with what had to
//! happen.
//!
//! Everything that takes part is a module below with three parts: what it prepares, what it does at
//! each leap of the clock, and what it checks in the end. The checks share nothing with the engine:
//! instants come from an oracle that walks minute by minute, with PostgreSQL's own time zones.
//!
//! `SEMEL_MONTH_SCHEDULES`, `SEMEL_MONTH_WAITS` and `SEMEL_MONTH_APPROVALS` say how many there are.

mod approvals;
mod schedules;
mod waits;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_testkit::{Chance, Cluster, Connection, Program, pace, until};
use serde_json::json;

use crate::campaign::{is_measured, keep_figures, size, storage};
use crate::crowd::{self, Post};
use crate::invariants;
use crate::servers::{Home, Served, serve};

/// When the month begins: clocks change on the 14th, the 28th, and on 4 April.
const START: &str = "2027-03-08T00:00:30Z";

/// How long it lasts.
const DAYS: i64 = 30;

/// How many senders deliver.
const SENDERS: usize = 16;

/// How many servers there are.
const SERVERS: usize = 3;

/// The lease is over with every leap; a server notices within a third of it.
const LEASE: &str = "1s";

/// How long the servers have between two leaps.
const REST: Duration = Duration::from_millis(450);

/// The most minutes by which the clock is moved back.
const BACK_MAX: usize = 15;

/// The most minutes that the clock may have gone back between an end and its record.
pub(crate) const BACK: i64 = 16;

/// The most hours by which the clock leaps. A campaign has more leaps, and more kills.
fn leap_max() -> usize {
    if is_measured() { 15 } else { 23 }
}

/// What the parts of the storm share.
pub(crate) struct Month {
    pub(crate) home: Home,
    pub(crate) client: Connection,
    pub(crate) servers: Vec<Option<Served>>,
    pub(crate) chance: Chance,
    /// Each jump of the clock: what it showed before and after, in seconds.
    pub(crate) jumps: Vec<(i64, i64)>,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_month_in_a_minute_misses_nothing_and_does_nothing_twice() -> Result<()> {
    let cluster = Cluster::start(storage()).await?;
    let mut month = Month::begin(&cluster).await?;
    let begun = Instant::now();
    let schedules = schedules::prepare(&mut month, size("SEMEL_MONTH_SCHEDULES", 100)?).await?;
    for index in 0..SERVERS {
        month.start(index).await?;
    }
    let mut waits = waits::prepare(&mut month, size("SEMEL_MONTH_WAITS", 500)?).await?;
    let mut approvals = approvals::prepare(&mut month, size("SEMEL_MONTH_APPROVALS", 100)?).await?;
    println!("prepared after {:.1} s", begun.elapsed().as_secs_f64());

    let (mut leaps, mut kills) = (0, 0);
    while month.hours().await? < DAYS * 24 {
        kills += month.kill_some(leaps).await?;
        month.leap().await?;
        waits.go_on(&mut month).await?;
        approvals.go_on(&mut month).await?;
        pace(REST).await;
        leaps += 1;
    }
    for index in 0..SERVERS {
        month.start(index).await?;
    }
    println!("{leaps} leaps after {:.1} s", begun.elapsed().as_secs_f64());
    let resumed = month.until_quiet(&schedules).await?;
    println!("quiet after {:.1} s", begun.elapsed().as_secs_f64());

    let ticks = schedules::check(&month, &schedules).await?;
    let waited = waits.check(&month).await?;
    let decided = approvals.check(&month).await?;
    // A clock that goes back makes what is recorded look older than what it ends, so repairs may be made for nothing.
    invariants::hold_but(&month.home, &[], &["duties"]).await?;
    let figures = json!({
        "days": DAYS, "leaps": leaps, "kills": kills, "resumed": resumed, "schedules": ticks, "waits": waited,
        "approvals": decided,
        "seconds": begun.elapsed().as_secs(),
    });
    println!("{figures:#}");
    keep_figures("month", &figures)?;
    ensure!(kills > 0, "no server was killed");
    Ok(())
}

impl Month {
    async fn begin(cluster: &Cluster) -> Result<Self> {
        let home = Home::found(cluster.server()).await?;
        let client = home.connect().await?;
        client
            .batch_execute(&format!(
                "UPDATE clock SET time_offset = '{START}'::timestamptz - clock_timestamp();
                 UPDATE tokens SET expires_at = moment() + interval '1 year'"
            ))
            .await?;
        Ok(Self {
            home,
            client,
            servers: (0..SERVERS).map(|_| None).collect(),
            chance: Chance::new("a month"),
            jumps: vec![],
        })
    }

    /// Starts a server unless it runs.
    async fn start(&mut self, index: usize) -> Result<()> {
        if self.servers[index].is_none() {
            let served = serve(Program::semel()?, &self.home.url(), LEASE).await?;
            self.servers[index] = Some(served);
        }
        Ok(())
    }

    /// A server that runs, if one does.
    pub(crate) fn any(&mut self) -> Option<&Served> {
        let first = self.chance.below(SERVERS);
        let turn = (0..SERVERS).map(|step| (first + step) % SERVERS);
        turn.filter_map(|index| self.servers[index].as_ref()).next()
    }

    /// Kills a server every third leap, and starts one that is dead. Now and then all are dead for
    /// a few leaps.
    async fn kill_some(&mut self, leap: usize) -> Result<usize> {
        let outage = leap % 25 == 12;
        if outage {
            let mut kills = 0;
            for index in 0..SERVERS {
                kills += self.kill(index)?;
            }
            return Ok(kills);
        }
        if (13..16).contains(&(leap % 25)) {
            return Ok(0);
        }
        for index in 0..SERVERS {
            self.start(index).await?;
        }
        match leap % 3 {
            0 => {
                let index = self.chance.below(SERVERS);
                self.kill(index)
            }
            _ => Ok(0),
        }
    }

    fn kill(&mut self, index: usize) -> Result<usize> {
        match self.servers[index].take() {
            Some(mut served) => {
                served.process.sigkill()?;
                Ok(1)
            }
            None => Ok(0),
        }
    }

    /// How many hours of the month have passed.
    async fn hours(&self) -> Result<i64> {
        let passed =
            "SELECT floor(extract(epoch FROM moment() - $1::text::timestamptz) / 3600)::int8";
        Ok(self.client.query_one(passed, &[&START]).await?.get(0))
    }

    /// Moves the clock to a full hour some hours on, a second after it; now and then a little back.
    async fn leap(&mut self) -> Result<()> {
        let on = "UPDATE clock SET time_offset = date_trunc('hour', moment())
                    + make_interval(hours => 1) * $1::float8 + interval '1 second'
                    - clock_timestamp()";
        let back =
            "UPDATE clock SET time_offset = time_offset - make_interval(mins => 1) * $1::float8";
        let before = self.seconds().await?;
        if self.chance.below(12) == 0 {
            let minutes = (1 + self.chance.below(BACK_MAX)) as f64;
            self.client.execute(back, &[&minutes]).await?;
        } else {
            let hours = (1 + self.chance.below(leap_max())) as f64;
            self.client.execute(on, &[&hours]).await?;
        }
        self.jumps.push((before, self.seconds().await?));
        Ok(())
    }

    async fn seconds(&self) -> Result<i64> {
        let now = "SELECT floor(extract(epoch FROM moment()))::int8";
        Ok(self.client.query_one(now, &[]).await?.get(0))
    }

    async fn resume_quarantined(&mut self) -> Result<usize> {
        let kept = "SELECT 'run_' || replace(id::text, '-', '') FROM runs
                     WHERE state = 'quarantined'";
        let rows = self.client.query(kept, &[]).await?;
        let server = self.servers[0].as_ref().context("a server")?;
        for row in &rows {
            let path = format!("/v1/runs/{}/resume", row.get::<_, &str>(0));
            let why = json!({ "reason": "the clock leapt" }).to_string();
            self.home.command(server, Method::POST, &path, why).await?;
        }
        Ok(rows.len())
    }

    /// Delivers so much, all of which has to be accepted.
    pub(crate) async fn deliver(&self, posts: Vec<Post>) -> Result<()> {
        let server = self.servers[0].as_ref().context("a server")?;
        for (_, answer) in crowd::send(server, SENDERS, posts).await? {
            ensure!(answer.status == 202, "{}", answer.text());
        }
        Ok(())
    }

    /// Waits until there are so many rows.
    pub(crate) async fn until_rows(&self, read: &str, wanted: usize) -> Result<()> {
        let what = format!("{wanted} rows by {read}");
        let look = async || -> Result<usize> { Ok(self.client.query(read, &[]).await?.len()) };
        until(&what, look, |rows| *rows == wanted).await?;
        Ok(())
    }

    /// What runs counted under a prefix of the store.
    pub(crate) async fn counts(&self, prefix: &str) -> Result<HashMap<String, i64>> {
        let counts = "SELECT substr(entry, length($1::text) + 2), (value #>> '{}')::int8
                        FROM kv WHERE entry LIKE $1::text || '/%'";
        let rows = self.client.query(counts, &[&prefix]).await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    /// Waits until nothing is due, every event is dispatched and every run has ended. Returns how
    /// many runs an operator had to resume: every leap ends every lease, so that a run which no
    /// worker moved between five of them is quarantined, as it should be.
    async fn until_quiet(&mut self, schedules: &[schedules::Declared]) -> Result<usize> {
        let mut resumed = 0;
        let rows = schedules.len() as i64;
        let left = "SELECT (SELECT count(*) FROM runs WHERE state = 'active')
                           + (SELECT count(*) FROM outbox),
                           (SELECT count(*) FROM schedules WHERE due_at > moment())";
        let what = format!("nothing that is active or stopped, and {rows} schedules decided");
        let look = async || -> Result<(i64, usize, i64)> {
            let row = self.client.query_one(left, &[]).await?;
            let some = self.resume_quarantined().await?;
            resumed += some;
            Ok((row.get(0), some, row.get(1)))
        };
        until(&what, look, |seen| *seen == (0, 0, rows)).await?;
        Ok(resumed)
    }
}
