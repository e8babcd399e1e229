//! Workers in other languages: a Python program and a shell command work through many tasks each,
//! while workers are killed, and the server now and then.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use semel_testkit::{Chance, Cluster, Connection, Process, Program, free_address, pace};
use serde_json::{Value, json};

use crate::campaign::{keep_figures, size, storage};
use crate::crowd::{self, Post};
use crate::invariants;
use crate::queries::{ACTIVE, count};
use crate::servers::{Home, Served, serve_at};

/// How many tasks each language works through, unless `SEMEL_WORKER_TASKS` says otherwise: so many at
/// once, and as many again for as long as the storm lasts.
const TASKS: usize = 300;

/// How many processes of each language there are.
const WORKERS: usize = 2;

/// How often a worker is killed.
const KILL_EVERY: Duration = Duration::from_millis(500);

/// Every so many kills, one is the server's, the fifth first. Not more often: a run that is taken five
/// times by servers that die before it moves is quarantined, as it should be.
const SERVER_EVERY: usize = 20;
const SERVER_FIRST: usize = 5;

/// The least kills that are a storm.
const KILLS_MIN: usize = 8;

/// How many kills in a row may find the same number of runs active.
const STANDSTILL_MAX: usize = 200;

/// Tasks that were given to another worker.
const AGAIN: &str = "SELECT count(*) FROM effects WHERE kind = 'task' AND attempt > 1";

const SENDERS: usize = 16;

const LEASE: &str = "2s";

/// What the shell command does with what it gets on stdin.
const SHELL: &str = r#"n=$(tr -dc 0-9); printf '{"square":%d,"key":"%s"}' $((n * n)) "$SEMEL_KEY""#;

const QUEUES: [&str; 2] = ["python", "shell"];

#[tokio::test(flavor = "multi_thread")]
async fn each_task_has_one_result_however_many_workers_die() -> Result<()> {
    let wanted = size("SEMEL_WORKER_TASKS", TASKS)?;
    let cluster = Cluster::start(storage()).await?;
    let home = Home::found(cluster.server()).await?;
    let mut place = Place::open(&home).await?;
    for queue in QUEUES {
        home.publish(&place.server, queue, &flow(queue)).await?;
    }
    let begun = Instant::now();
    deliver(&place.server, 0..wanted).await?;
    let accepted_after = begun.elapsed();

    let client = home.connect().await?;
    let (mut chance, mut kills, mut server_kills) = (Chance::new("workers"), 0, 0);
    let (mut tasks, mut standing) = (wanted, (0, 0));
    loop {
        let active = count(&client, ACTIVE).await?;
        if active == 0 {
            if kills >= KILLS_MIN && count(&client, AGAIN).await? > 0 {
                break;
            }
            // Every kill is to find tasks in hands.
            deliver(&place.server, tasks..tasks + wanted).await?;
            tasks += wanted;
        }
        standing = match standing {
            (before, times) if before == active => (active, times + 1),
            _ => (active, 0),
        };
        ensure!(standing.1 < STANDSTILL_MAX, "{active} runs stand still");
        pace(KILL_EVERY).await;
        kills += 1;
        if kills % SERVER_EVERY == SERVER_FIRST {
            server_kills += 1;
            place.kill_server(&home).await?;
        } else {
            place.kill_worker(chance.below(WORKERS * QUEUES.len()))?;
        }
    }
    let seconds = begun.elapsed().as_secs_f64();

    check_results(&client, tasks).await?;
    let again = count(&client, AGAIN).await?;
    let late = count(&client, "SELECT count(*) FROM late_responses").await?;
    let figures = json!({
        "tasks_of_each": tasks,
        "workers_killed": kills - server_kills,
        "servers_killed": server_kills,
        "accepted_after_s": (accepted_after.as_secs_f64() * 10.0).round() / 10.0,
        "seconds": (seconds * 10.0).round() / 10.0,
        "given_to_another_worker": again,
        "late_answers_kept": late,
        "results": tasks * QUEUES.len(),
        "recorded_twice": 0,
    });
    println!("{figures:#}");
    keep_figures("workers", &figures)?;
    invariants::hold(&home, &[&place.server]).await
}

fn flow(queue: &str) -> String {
    format!(
        "flow: {queue}\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\n\
         retry: {{ attempts: 50, delay: 50ms, max_delay: 500ms, within: 1d }}\nsteps:\n\
         \x20 - id: work\n    task: {{ queue: {queue}, input: {{ n: '${{{{ input.n }}}}' }}, within: 1d, lease: {LEASE} }}\n    \
         guard: key\n\
         \x20 - id: counted\n    kv: {{ add: '{queue}/${{{{ input.id }}}}' }}\n\
         result: steps.work.result\n"
    )
}

/// Delivers tasks with these numbers for each language.
async fn deliver(server: &Served, numbers: Range<usize>) -> Result<()> {
    let deliveries = numbers.flat_map(|n| {
        QUEUES.map(|queue| Post {
            subject: n,
            path: format!("/hooks/default/{queue}"),
            body: format!(r#"{{"id":"{n}","n":{n}}}"#),
        })
    });
    for (_, answer) in crowd::send(server, SENDERS, deliveries.collect()).await? {
        ensure!(answer.status == 202, "{}", answer.text());
    }
    Ok(())
}

/// One server that always restarts at its address, and its workers.
struct Place {
    listen: String,
    token: String,
    server: Served,
    workers: Vec<Process>,
}

impl Place {
    async fn open(home: &Home) -> Result<Self> {
        let listen = free_address()?.to_string();
        let server = serve_at(Program::semel()?, &home.url(), "2s", &listen).await?;
        let mut place = Self {
            listen,
            token: home.token().to_owned(),
            server,
            workers: Vec::new(),
        };
        for index in 0..WORKERS * QUEUES.len() {
            let worker = place.start(index)?;
            place.workers.push(worker);
        }
        Ok(place)
    }

    fn start(&self, index: usize) -> Result<Process> {
        let (url, token) = (format!("http://{}", self.listen), &self.token);
        if index.is_multiple_of(QUEUES.len()) {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("chaos/workers/worker.py");
            return Program::at("python3")
                .arg(script)
                .args([&url, token, QUEUES[0]])
                .start();
        }
        Program::semel()?
            .args(["worker", "--queue", QUEUES[1], "--parallel", "4"])
            .args(["--url", &url, "--token", token, "--", "sh", "-c", SHELL])
            .start()
    }

    fn kill_worker(&mut self, index: usize) -> Result<()> {
        self.workers[index].sigkill()?;
        self.workers[index] = self.start(index)?;
        Ok(())
    }

    async fn kill_server(&mut self, home: &Home) -> Result<()> {
        self.server.process.sigkill()?;
        self.server = serve_at(Program::semel()?, &home.url(), "2s", &self.listen).await?;
        Ok(())
    }
}

/// Every run succeeded with the result of its own number, and continued after its task once.
async fn check_results(client: &Connection, wanted: usize) -> Result<()> {
    let rows = "SELECT f.name, convert_from(r.key, 'UTF8'), r.state::text, r.result::text
                  FROM runs r JOIN releases l ON l.id = r.release_id JOIN flows f ON f.id = l.flow_id";
    let mut seen: HashMap<(String, String), ()> = HashMap::new();
    for row in client.query(rows, &[]).await? {
        let (queue, id): (String, String) = (row.get(0), row.get(1));
        let (state, result): (&str, Option<&str>) = (row.get(2), row.get(3));
        ensure!(state == "succeeded", "{queue} {id} is {state}: {result:?}");
        let result: Value = serde_json::from_str(result.unwrap_or("null"))?;
        let n: u64 = id.parse().context("a number")?;
        ensure!(
            result["square"] == json!(n * n),
            "{queue} {id} gave {result}"
        );
        ensure!(seen.insert((queue, id), ()).is_none(), "a run twice");
    }
    ensure!(seen.len() == wanted * QUEUES.len(), "{} runs", seen.len());
    let once = "SELECT count(*) FROM kv WHERE entry ~ '^(python|shell)/' AND value::text = '1'";
    ensure!(
        count(client, once).await? == wanted * QUEUES.len(),
        "each continued once"
    );
    let twice = "SELECT count(*) FROM (
        SELECT j.run_id FROM journal j, json_array_elements(j.events) e
         WHERE e->>'event' = 'done' AND e->>'step' = 'work'
         GROUP BY j.run_id HAVING count(*) > 1) AS more";
    ensure!(
        count(client, twice).await? == 0,
        "a result was recorded twice"
    );
    Ok(())
}
