//! A round: some runs are brought to where they are taken, and are answered twice each while they are.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hyper::Method;
use semel_testkit::client::Answer as Reply;
use semel_testkit::peer::Behaviour;
use semel_testkit::{Chance, Client, Connection, pace, patience, until};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::Ground;
use super::way::{Answer, Way};
use crate::campaign::is_measured;
use crate::queries::{UNENDED, count, until_count};

/// How long a sender rests before it tries again, and the pause between two looks.
pub(super) const REST: Duration = Duration::from_millis(20);

/// The most milliseconds between the two answers to a run.
const APART_MS: usize = 100;

/// Over how many milliseconds the runs of a round are answered.
const SPREAD_MS: usize = 500;

/// When in that time all runs are taken, where they are taken together.
const MIDDLE: Duration = Duration::from_millis(250);

/// How long the items of a round rest, to a second: runs that are accepted later do not rest.
const ITEMS_REST: &str = "4 seconds";

/// How many numbers a large answer has: with every change, and for a server that runs out of memory.
const LARGE: usize = 30_000;
const LARGE_FULL: usize = 100_000;

/// How many tasks a worker takes at once.
const TASKS_MAX: usize = 50;

/// Runs that rest, but for those of items.
const RESTING: &str = "
    SELECT count(*) FROM queue q JOIN runs r ON r.id = q.run_id
     WHERE q.holder IS NULL AND q.stage = 'waiting' AND r.parent_id IS NULL";

const PAUSED: &str = "SELECT count(*) FROM paused_runs";

/// Runs that wait for an operator. One whose request was repeated, and refused twice, leaves another that is not refused.
const REFUSED: &str = "
    SELECT count(*) FROM queue q JOIN runs r ON r.id = q.run_id
     WHERE q.holder IS NULL AND q.stage IN ('stopped', 'waiting') AND r.parent_id IS NULL";

const BEHIND_A_NAME: &str = "SELECT count(*) FROM named_effect_waiters";

/// Runs in the hands of a process.
const HELD_BY: &str = "
    SELECT count(*) FROM queue q JOIN sessions s ON s.id = q.holder WHERE s.process = $1";

/// Has a run taken that nothing has come for, as its timer would.
const MAKE_DUE: &str = "
    UPDATE queue SET due_at = moment()
     WHERE run_id = $1::text::uuid AND holder IS NULL AND stage = 'waiting'";

/// The same, for a run that does not sleep for a pause yet.
const MAKE_DUE_UNLESS_PAUSED: &str = "
    UPDATE queue SET due_at = moment()
     WHERE run_id = $1::text::uuid AND holder IS NULL AND stage = 'waiting'
       AND run_id NOT IN (SELECT run_id FROM paused_runs)";

/// Leaves a run in the hands of a server that is gone.
const LOSE: &str = "
    WITH gone AS (
        INSERT INTO sessions (id, process, version, expires_at)
        VALUES (gen_random_uuid(), 'gone', '0', moment() - interval '1 second')
     RETURNING id)
    UPDATE queue q SET holder = gone.id, epoch = q.epoch + 1
      FROM gone
     WHERE q.run_id = $1::text::uuid AND q.holder IS NULL AND q.stage = 'waiting'";

/// The runs of one round.
pub(super) struct Round<'a> {
    ground: &'a Ground,
    way: Way,
    number: usize,
    size: usize,
}

/// Sends the answers of a round's runs, to any of the servers that are not stopped.
struct Senders {
    way: Way,
    servers: Vec<Arc<Client>>,
    bearer: String,
    sql: Connection,
    large: String,
}

/// A run, and where its answers go.
#[derive(Clone, Debug)]
struct Target {
    /// The run as it was answered to its sender.
    run: String,
    first: First,
    later: String,
}

/// The answer to the first wait of a run.
#[derive(Clone, Debug)]
enum First {
    Callback { path: String },
    Task { task: String, token: Value },
    Approval { path: String, digest: String },
}

/// When a run's turn comes, and how long after that it is answered and taken.
#[derive(Clone, Copy, Debug)]
struct Times {
    begins: Duration,
    first: Duration,
    later: Duration,
    taken: Duration,
}

impl<'a> Round<'a> {
    pub(super) fn new(ground: &'a Ground, way: Way, number: usize, size: usize) -> Self {
        Self {
            ground,
            way,
            number,
            size,
        }
    }

    /// Plays the round until all its runs have ended.
    pub(super) async fn play(&self, chance: &mut Chance) -> Result<()> {
        let senders = Arc::new(self.senders().await?);
        let all: Vec<usize> = (0..self.size).collect();
        let (blockers, others) = if self.way.is_shared() {
            all.split_at(self.size.div_ceil(2))
        } else {
            all.split_at(self.size)
        };
        let at = self.date().await?;
        let mut runs = self.deliver(&senders, blockers, &at).await?;
        if self.way == Way::Name {
            self.ground
                .peer
                .until_held(blockers.len(), patience())
                .await?;
        }
        runs.extend(self.deliver(&senders, others, &at).await?);
        self.prepare(&senders, &runs, others.len()).await?;
        if self.way == Way::ItemEnd {
            self.come_near(&at).await?;
        }

        let mut answering = JoinSet::new();
        let act = async {
            pace(MIDDLE).await;
            self.act(&senders).await
        };
        let answer = self.answer_as_told(&senders, &mut answering, &runs, chance);
        tokio::try_join!(answer, act)?;
        while let Some(answered) = answering.join_next().await {
            answered??;
        }
        self.until_ended(&senders).await
    }

    async fn senders(&self) -> Result<Senders> {
        // The first server is stopped where its responses are to come late.
        let first = usize::from(self.way == Way::LateResponse);
        let servers = self.ground.servers.iter().skip(first);
        let numbers = if is_measured() { LARGE_FULL } else { LARGE };
        Ok(Senders {
            way: self.way,
            servers: servers.map(|server| server.client.clone()).collect(),
            bearer: format!("Bearer {}", self.ground.home.token()),
            sql: self.ground.home.connect().await?,
            large: format!("[{}0]", "0,".repeat(numbers)),
        })
    }

    /// Until when the items of the round rest.
    async fn date(&self) -> Result<String> {
        let date = format!(
            "SELECT to_char((moment() + interval '{ITEMS_REST}') AT TIME ZONE 'UTC',
                            'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"
        );
        let client = &self.ground.client;
        Ok(client.query_one(date.as_str(), &[]).await?.get(0))
    }

    fn id(&self, index: usize) -> String {
        format!("{}-{index}", self.number)
    }

    fn answer_of(&self, index: usize) -> Answer {
        let answers = self.way.answers();
        answers[index % answers.len()]
    }

    /// Delivers runs, and gives each by its key.
    async fn deliver(
        &self,
        senders: &Senders,
        indices: &[usize],
        at: &str,
    ) -> Result<HashMap<String, (Answer, String)>> {
        if self.way == Way::Resume && !indices.is_empty() {
            let (peer, times) = (&self.ground.peer, u32::try_from(indices.len())?);
            peer.next_times("/keyed/act", times, Behaviour::RefuseWith(429))
                .await?;
        }
        let mut runs = HashMap::new();
        for index in indices {
            // A blocker and the run behind it have one object.
            let object = index % self.size.div_ceil(2);
            let (id, answer) = (self.id(*index), self.answer_of(*index));
            let object = format!("{}-{object}", self.number);
            let body = json!({ "id": id, "object": object, "at": at }).to_string();
            let path = format!("/hooks/default/{}", answer.flow());
            let reply = match self.way {
                // The server that is stopped later has to hold these runs.
                Way::LateResponse => {
                    let first = [self.ground.servers[0].client.clone()];
                    post(&first, *index, &path, &[], &body).await?
                }
                Way::PauseEnd
                | Way::ItemEnd
                | Way::Cancel
                | Way::Timer
                | Way::Gate
                | Way::Name
                | Way::Resume
                | Way::Recovery
                | Way::PutBack => post(&senders.servers, *index, &path, &[], &body).await?,
            };
            ensure!(reply.status.is_success(), "{}", reply.text());
            let reply: Value = reply.json()?;
            let run = reply["run"].as_str().context("a run")?.to_owned();
            runs.insert(id, (answer, run));
        }
        Ok(runs)
    }

    /// Brings the runs to where they are about to be taken.
    async fn prepare(
        &self,
        senders: &Senders,
        runs: &HashMap<String, (Answer, String)>,
        behind: usize,
    ) -> Result<()> {
        let sql = &self.ground.client;
        match self.way {
            Way::Cancel | Way::Timer | Way::Recovery | Way::PutBack => {
                until_count(sql, RESTING, self.size).await
            }
            Way::PauseEnd => {
                until_count(sql, RESTING, self.size).await?;
                self.change_flows(senders, "pause", r#"{"reason":"a storm"}"#)
                    .await?;
                // Again and again: a server that has not heard of the pause yet puts a run back to its wait.
                let look = async || -> Result<usize> {
                    for (_, run) in runs.values() {
                        sql.execute(MAKE_DUE_UNLESS_PAUSED, &[&uuid_of(run)])
                            .await?;
                    }
                    count(sql, PAUSED).await
                };
                until("all runs to sleep for the pause", look, |paused| {
                    *paused == self.size
                })
                .await?;
                Ok(())
            }
            Way::Name => until_count(sql, BEHIND_A_NAME, behind).await,
            Way::Resume => until_count(sql, REFUSED, self.size).await,
            Way::LateResponse => {
                let stopped = &self.ground.servers[0].process;
                self.ground.peer.until_held(self.size, patience()).await?;
                stopped.sigstop()?;
                let process = format!("pid {}", stopped.id());
                let look = async || -> Result<i64> {
                    Ok(sql.query_one(HELD_BY, &[&process]).await?.get(0))
                };
                until("its runs to be taken back", look, |held| *held == 0).await?;
                Ok(())
            }
            // The answers come as soon as a run has said where to, and at the end of the items.
            Way::ItemEnd | Way::Gate => Ok(()),
        }
    }

    /// Has all runs of the round taken, where they are taken together.
    async fn act(&self, senders: &Senders) -> Result<()> {
        match self.way {
            Way::PauseEnd => self.change_flows(senders, "resume", "{}").await,
            Way::Name => {
                self.ground.peer.let_go().await?;
                Ok(())
            }
            Way::LateResponse => {
                self.ground.servers[0].process.sigcont()?;
                self.ground.peer.let_go().await?;
                Ok(())
            }
            Way::ItemEnd
            | Way::Cancel
            | Way::Timer
            | Way::Gate
            | Way::Resume
            | Way::Recovery
            | Way::PutBack => Ok(()),
        }
    }

    /// Pauses or resumes the flows of all runs.
    async fn change_flows(&self, senders: &Senders, verb: &str, body: &str) -> Result<()> {
        for answer in self.way.answers() {
            let path = format!("/v1/flows/{}/{verb}", answer.flow());
            let key = format!("{verb} {} {}", answer.flow(), self.number);
            let reply = senders.command(self.number, &path, &key, body).await?;
            ensure!(reply.status.is_success(), "{path}: {}", reply.text());
        }
        Ok(())
    }

    /// Waits until the items of the round have nearly rested.
    async fn come_near(&self, at: &str) -> Result<()> {
        let left = "SELECT extract(epoch FROM $1::text::timestamptz - moment())::float8";
        let left: f64 = self.ground.client.query_one(left, &[&at]).await?.get(0);
        let left = Duration::from_secs_f64(left.max(0.0));
        pace(left.saturating_sub(MIDDLE)).await;
        Ok(())
    }

    /// Answers each run as soon as it has told where to.
    async fn answer_as_told(
        &self,
        senders: &Arc<Senders>,
        answering: &mut JoinSet<Result<()>>,
        runs: &HashMap<String, (Answer, String)>,
        chance: &mut Chance,
    ) -> Result<()> {
        let spread = if self.way == Way::Gate { 0 } else { SPREAD_MS };
        let mut answered = HashSet::new();
        let look = async || -> Result<usize> {
            let mut targets = senders.list_targets(self.number, runs).await?;
            targets.retain(|id, _| !answered.contains(id));
            // In one order, so that a seed gives each run the same times.
            let mut ids: Vec<String> = targets.keys().cloned().collect();
            ids.sort_unstable();
            for (turn, id) in ids.into_iter().enumerate() {
                let times = Times::draw(chance, spread);
                let target = targets.remove(&id).context("a run")?;
                answering.spawn(answer_twice(senders.clone(), turn, target, times));
                answered.insert(id);
            }
            Ok(answered.len())
        };
        let what = "all runs to be answered";
        until(what, look, |answered| *answered == self.size).await?;
        Ok(())
    }

    async fn until_ended(&self, senders: &Senders) -> Result<()> {
        let mut left = self.size + 1;
        while left > 0 {
            let before = left;
            let look = async || -> Result<usize> {
                // A call that was repeated, because its server lost its lease, is held again.
                self.ground.peer.let_go().await?;
                if self.way.answers().contains(&Answer::Task) {
                    senders.work_off().await?;
                }
                count(&self.ground.client, UNENDED).await
            };
            left = until("one more run to end", look, |left| *left < before).await?;
        }
        Ok(())
    }
}

impl Times {
    fn draw(chance: &mut Chance, spread_ms: usize) -> Self {
        let mut within = |ms: usize| Duration::from_millis(chance.below(ms + 1) as u64);
        Self {
            begins: within(spread_ms),
            first: within(APART_MS),
            later: within(APART_MS),
            taken: within(APART_MS),
        }
    }
}

/// Answers a run twice and takes it meanwhile.
async fn answer_twice(
    senders: Arc<Senders>,
    turn: usize,
    target: Target,
    times: Times,
) -> Result<()> {
    pace(times.begins).await;
    let first = async {
        pace(times.first).await;
        senders.answer_first(turn, &target.first).await
    };
    let later = async {
        pace(times.later).await;
        senders.answer(turn + 1, &target.later, "1").await
    };
    let taken = async {
        pace(times.taken).await;
        senders.take(turn + 2, &target.run).await
    };
    tokio::try_join!(first, later, taken)?;
    Ok(())
}

impl Senders {
    /// The runs that have told where their answers go.
    async fn list_targets(
        &self,
        round: usize,
        runs: &HashMap<String, (Answer, String)>,
    ) -> Result<HashMap<String, Target>> {
        let (mut tasks, mut digests) = (HashMap::new(), HashMap::new());
        // Before what runs told is read: a task that is taken here was told of before.
        if self.way.answers().contains(&Answer::Task) {
            tasks = self.claim().await?;
        }
        if self.way.answers().contains(&Answer::Approval) {
            digests = self.list_digests().await?;
        }
        let firsts = self.list_told("first", round).await?;
        let laters = self.list_told("later", round).await?;
        let mut targets = HashMap::new();
        for (id, (answer, run)) in runs {
            let (Some(first), Some(later)) = (firsts.get(id), laters.get(id)) else {
                continue;
            };
            let first = match answer {
                Answer::Callback => {
                    let path = path_of(first)?;
                    Some(First::Callback { path })
                }
                Answer::Task => tasks.get(run).cloned(),
                Answer::Approval => match digests.get(id).cloned() {
                    Some(digest) => {
                        let path = path_of(first)?;
                        Some(First::Approval { path, digest })
                    }
                    None => None,
                },
            };
            if let Some(first) = first {
                let (run, later) = (run.clone(), path_of(later)?);
                targets.insert(id.clone(), Target { run, first, later });
            }
        }
        Ok(targets)
    }

    /// The values that the runs of a round stored about one of their answers, by the runs' keys.
    async fn list_told(&self, answer: &str, round: usize) -> Result<HashMap<String, String>> {
        let told = "SELECT split_part(entry, '/', 2), value::text FROM kv
                     WHERE starts_with(entry, $1::text)";
        let of_round = format!("{answer}/{round}-");
        let mut found = HashMap::new();
        for row in self.sql.query(told, &[&of_round]).await? {
            let value: Value = serde_json::from_str(row.get(1))?;
            found.insert(row.get(0), value.as_str().context("a text")?.to_owned());
        }
        Ok(found)
    }

    async fn list_digests(&self) -> Result<HashMap<String, String>> {
        let open = "SELECT shown->>'id', digest FROM approvals WHERE state = 'open'";
        let rows = self.sql.query(open, &[]).await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    /// Takes tasks that wait for a worker, by their runs.
    async fn claim(&self) -> Result<HashMap<String, First>> {
        let body = json!({ "queue": "work", "max": TASKS_MAX, "worker": "storm" }).to_string();
        let key = format!("claim {}", self.unique().await?);
        let reply = self.command(0, "/v1/tasks/claim", &key, &body).await?;
        ensure!(reply.status.is_success(), "{}", reply.text());
        let reply: Value = reply.json()?;
        let mut tasks = HashMap::new();
        for claimed in reply["tasks"].as_array().context("tasks")? {
            let run = claimed["run"].as_str().context("a run")?.to_owned();
            let task = claimed["task"].as_str().context("a task")?.to_owned();
            let token = claimed["token"].clone();
            tasks.insert(run, First::Task { task, token });
        }
        Ok(tasks)
    }

    /// Answers what a worker lost: its claim was never answered, and the task is another worker's then.
    async fn work_off(&self) -> Result<()> {
        for task in self.claim().await?.values() {
            self.answer_first(0, task).await?;
        }
        Ok(())
    }

    /// A name that nothing had before.
    async fn unique(&self) -> Result<String> {
        let name = "SELECT gen_random_uuid()::text";
        Ok(self.sql.query_one(name, &[]).await?.get(0))
    }

    async fn answer_first(&self, turn: usize, first: &First) -> Result<()> {
        match first {
            First::Callback { path } => {
                let is_large = self.way == Way::PutBack;
                self.answer(turn, path, if is_large { &self.large } else { "1" })
                    .await
            }
            First::Task { task, token } => {
                let path = format!("/v1/tasks/{task}/complete");
                let key = format!("complete {task} {token}");
                let body = json!({ "token": token, "result": 1 }).to_string();
                let reply = self.command(turn, &path, &key, &body).await?;
                // The worker was too slow, or the run is cancelled.
                let is_late = reply.status == 409 || self.is_cut_short(&reply);
                ensure!(reply.status.is_success() || is_late, "{}", reply.text());
                Ok(())
            }
            First::Approval { path, digest } => {
                let body = json!({ "approved": true, "digest": digest, "name": "Grace" });
                self.answer(turn, path, &body.to_string()).await
            }
        }
    }

    /// Sends what needs no token.
    async fn answer(&self, turn: usize, path: &str, body: &str) -> Result<()> {
        let reply = post(&self.servers, turn, path, &[], body).await?;
        let is_fine = reply.status.is_success() || self.is_cut_short(&reply);
        ensure!(is_fine, "{path}: {} {}", reply.status, reply.text());
        Ok(())
    }

    /// Whether an answer met a run that was cancelled first.
    fn is_cut_short(&self, reply: &Reply) -> bool {
        self.way == Way::Cancel && reply.status.is_client_error()
    }

    /// Has one run taken, where each is by itself.
    async fn take(&self, turn: usize, run: &str) -> Result<()> {
        match self.way {
            Way::Cancel => {
                let reply = self.order(turn, run, "cancel").await?;
                // It has ended by its answers.
                let is_fine = reply.status.is_success() || reply.status == 409;
                ensure!(is_fine, "{} {}", reply.status, reply.text());
            }
            Way::Resume => {
                let reply = self.order(turn, run, "resume").await?;
                // It was not refused, and goes on by itself.
                let is_fine = reply.status.is_success() || reply.status == 409;
                ensure!(is_fine, "{} {}", reply.status, reply.text());
            }
            Way::Timer => {
                self.sql.execute(MAKE_DUE, &[&uuid_of(run)]).await?;
            }
            Way::Recovery => {
                self.sql.execute(LOSE, &[&uuid_of(run)]).await?;
            }
            Way::PauseEnd
            | Way::ItemEnd
            | Way::Gate
            | Way::Name
            | Way::PutBack
            | Way::LateResponse => {}
        }
        Ok(())
    }

    /// An operator's command about a run.
    async fn order(&self, turn: usize, run: &str, verb: &str) -> Result<Reply> {
        let path = format!("/v1/runs/{run}/{verb}");
        let key = format!("{verb} {run}");
        self.command(turn, &path, &key, r#"{"reason":"a storm"}"#)
            .await
    }

    async fn command(&self, turn: usize, path: &str, key: &str, body: &str) -> Result<Reply> {
        let headers = [
            ("authorization", self.bearer.as_str()),
            ("idempotency-key", key),
        ];
        post(&self.servers, turn, path, &headers, body).await
    }
}

/// Posts to one server after another until one has an answer of its own: again only where there was none, or where a
/// server says that it was not done.
async fn post(
    servers: &[Arc<Client>],
    turn: usize,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<Reply> {
    let mut all = vec![("content-type", "application/json")];
    all.extend(headers);
    let mut last = String::new();
    let in_turn = servers.iter().cycle().skip(turn % servers.len());
    for server in in_turn.take(TRIES_MAX) {
        let sent = server.send(Method::POST, path, &all, body.to_owned().into());
        match sent.await {
            Ok(reply) if is_passing(&reply) => last = reply.text(),
            Ok(reply) => return Ok(reply),
            Err(error) => last = error.to_string(),
        }
        pace(REST).await;
    }
    bail!("{path}: {last}")
}

/// Whether a server could not do it now.
fn is_passing(reply: &Reply) -> bool {
    let is_busy = reply.status == 409 && reply.text().contains("run-busy");
    is_busy || reply.status == 429 || reply.status.is_server_error()
}

/// How often something is sent before the servers count as stuck.
const TRIES_MAX: usize = 1_000;

/// The path of an address.
fn path_of(url: &str) -> Result<String> {
    let path = url.splitn(4, '/').nth(3).context("a path")?;
    Ok(format!("/{path}"))
}

/// The digits of a run's name, which PostgreSQL reads as they are.
fn uuid_of(run: &str) -> &str {
    run.trim_start_matches("run_")
}
