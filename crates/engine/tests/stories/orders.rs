//! Every order of two commands: what answers a run beside what takes it, and an erasure beside a dispatch.
//!
//! A run can be taken although nothing has come for the step that it stands at, and an answer that comes meanwhile must not
//! be slept over. The pairs, and where each is played. *Orders*: `callbacks.rs`, in every order. *Storm*: `tests/chaos/wakes.rs`,
//! where servers race and lose answers, so that it meets orders by chance.
//!
//! | taken by | callback | task's answer | approval | late response |
//! |---|---|---|---|---|
//! | end of a pause | orders, storm | storm | storm | nowhere |
//! | end of an item | orders, storm | nowhere: the step after the list | nowhere: as the task | nowhere: as the task, once in doubt |
//! | cancel | orders, storm | storm | storm | nowhere |
//! | timer | orders, storm | storm | storm | nowhere: the next look of a probe |
//! | gate | storm, right behind the gate: before it no step has told the address | cannot occur: no task is open | cannot occur: none is asked for | cannot occur: nothing was sent |
//! | name | storm, early ones alone: the run stands at the name | cannot occur: the task opens behind the name | cannot occur | cannot occur: nothing was sent |
//! | resume | storm | nowhere | nowhere | nowhere |
//! | recovery | orders, storm | storm | storm | one order: `tests/chaos/races.rs`, before the doubt is written |
//! | put-back | storm | nowhere: as recovery, by the same sleep | nowhere: as recovery | nowhere: as recovery |
//! | late response | storm | nowhere | nowhere | cannot occur: an effect has one |
//!
//! Whatever is played nowhere rests on the one statement that wakes a run: `crates/store/tests/queries/wakes.rs` shows of each
//! answer that it wakes a run which a worker holds.
//!
//! `semel_testkit::orders` says how an order is played, and how a red one is played again.

use std::time::Duration;

use anyhow::{Context, Error, Result, bail};
use semel_engine::{Engine, Intake, SinglePass};
use semel_model::RunId;
use semel_testkit::{Connection, Stage, until};
use serde_json::{Value, json};

use crate::world::World;

mod callbacks;
mod erasure;

/// The most runs of one take.
const ROOM: usize = 10;

/// How often runs may be due before a test gives up.
const TAKES_MAX: usize = 50;

/// A little more than the minute for which runs rest.
const PAST_A_MINUTE: Duration = Duration::from_secs(61);

/// Two engines without services on one database, each behind a gate.
struct Pair {
    world: World,
    engines: [Engine; 2],
    admin: Connection,
    /// How many runs were begun.
    runs: i64,
    /// How many of them were cancelled.
    runs_cut_short: i64,
}

impl Pair {
    /// On the database of a world in which the flows are live. Its own engine stops.
    async fn of(world: World) -> Result<(Self, Stage)> {
        world.engine.shutdown().await;
        let stage = Stage::of(world.database()).await?;
        let engines = [
            world.start_idle(&stage.url(0)).await?,
            world.start_idle(&stage.url(1)).await?,
        ];
        let pair = Self {
            engines,
            admin: world.database().connect().await?,
            world,
            runs: 0,
            runs_cut_short: 0,
        };
        Ok((pair, stage))
    }

    /// Starts a run of the story, and moves it until it rests or has ended.
    async fn begin_run(&mut self) -> Result<RunId> {
        self.runs += 1;
        let name = format!("planted-{}", self.runs);
        let payload = json!({"id": self.runs.to_string(), "name": name, "items": [1]});
        let payload = payload.to_string();
        let [first, _] = &self.engines;
        let intake = self.world.deliver_at(first, "story", &payload).await?;
        let Intake::Accepted(accepted) = intake else {
            bail!("not accepted: {intake:?}")
        };
        drive(first).await?;
        Ok(accepted.run)
    }

    /// The code of the address that the run has told.
    async fn token(&self) -> Result<String> {
        let url = self.world.kv("url").await?;
        let token = url.as_str().and_then(|url| url.rsplit('/').next());
        Ok(token.context("a code")?.to_owned())
    }

    /// How many rows a query counts about a run.
    async fn count(&self, query: &str, run: RunId) -> Result<i64> {
        Ok(self.admin.query_one(query, &[run.as_uuid()]).await?.get(0))
    }

    /// Waits until no run is left that has not ended.
    async fn until_ended(&self, run: RunId) -> Result<()> {
        let open = "SELECT count(*) FROM queue WHERE $1::uuid IS NOT NULL";
        let look = async || -> Result<i64> {
            drive(&self.engines[0]).await?;
            self.count(open, run).await
        };
        until("every run to end", look, |open| *open == 0).await?;
        Ok(())
    }

    async fn entry(&self, name: &str) -> Result<Value> {
        self.world.kv(name).await
    }
}

/// Makes passes of a service until one leaves nothing to do.
async fn pass(engine: &Engine, of: SinglePass) -> Result<()> {
    for _ in 0..TAKES_MAX {
        if !engine.pass(of).await.map_err(Error::msg)? {
            return Ok(());
        }
    }
    bail!("there is more to do again and again")
}

/// Takes and drives runs until none is due.
async fn drive(engine: &Engine) -> Result<()> {
    engine.until_idle().await;
    for _ in 0..TAKES_MAX {
        if engine.drive_due(ROOM).await.map_err(Error::msg)? == 0 {
            return Ok(());
        }
    }
    bail!("runs are due again and again")
}
