//! Five hundred runs are cancelled by one plan, while the server that works on it is killed again and
//! again.

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_testkit::{Cluster, Options, Program, until};
use serde_json::{Value, json};

use crate::invariants;
use crate::queries::count;
use crate::servers::{Home, Served, serve};

const LEASE: &str = "2s";

/// How long a dead server holds its job, at the most.
const HELD_FOR: &str = "10s";

/// How many runs are cancelled.
const RUNS: usize = 500;

/// After how many of them the server dies.
const RUNS_PER_KILL: usize = 150;

const FLOW: &str = "flow: sleepers\ntrigger:\n  webhook: { auth: none, key: input.id }\nsteps:\n  \
    - { id: nap, wait: { for: 30d } }\n";

const CANCELLED: &str = "SELECT count(*) FROM runs WHERE state = 'cancelled'";

const DONE: &str = "SELECT count(*) FROM run_job_items WHERE state = 'done'";

async fn deliver(server: &Served, from: usize, to: usize) -> Result<()> {
    for number in from..to {
        let body = json!({ "id": format!("s-{number}") }).to_string();
        let answer = server.client.post("/hooks/default/sleepers", body).await?;
        ensure!(answer.status.is_success(), "{}", answer.text());
    }
    Ok(())
}

async fn plan(home: &Home, server: &Served) -> Result<Value> {
    let body = json!({ "verb": "cancel", "flow": "sleepers" }).to_string();
    let shown = home.command(server, Method::POST, "/v1/run-jobs/preview", body);
    shown.await?.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_survives_the_kill_of_its_server() -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let client = home.connect().await?;
    let mut server = serve(Program::semel()?, &home.url(), LEASE).await?;
    home.publish(&server, "sleepers", FLOW).await?;
    deliver(&server, 0, RUNS - 1).await?;
    let old = plan(&home, &server).await?;
    deliver(&server, RUNS - 1, RUNS).await?;
    let apply = |digest: &Value| {
        json!({ "verb": "cancel", "flow": "sleepers", "digest": digest, "reason": "wrong month" })
            .to_string()
    };

    let path = "/v1/run-jobs";
    let refused = home.command(&server, Method::POST, path, apply(&old["digest"]));
    let refused = refused.await.err().map(|error| error.to_string());
    let new = plan(&home, &server).await?;
    let made = home.command(&server, Method::POST, path, apply(&new["digest"]));
    let made: Value = made.await?.json()?;
    let job = made["job"].as_str().context(made.to_string())?.to_owned();
    let (mut kills, mut next) = (0, RUNS_PER_KILL);
    loop {
        let look = async || -> Result<(usize, usize)> {
            Ok((
                count(&client, CANCELLED).await?,
                count(&client, DONE).await?,
            ))
        };
        let is_due = |(cancelled, done): &(usize, usize)| *cancelled == RUNS || *done >= next;
        let (cancelled, done) = until("more of the job to be done", look, is_due).await?;
        if cancelled == RUNS {
            break;
        }
        next = done + RUNS_PER_KILL;
        if done < RUNS {
            home.kill(&mut server, HELD_FOR).await?;
            server = serve(Program::semel()?, &home.url(), LEASE).await?;
            kills += 1;
        }
    }

    let refused = refused.context("the old plan is refused")?;
    ensure!(refused.contains("job-changed"), "{refused}");
    assert_eq!(new["count"], json!(RUNS));
    ensure!(kills > 0, "the job was carried out before a server died");
    let path = format!("/v1/run-jobs/{job}");
    let look = async || -> Result<Value> {
        let shown = home.command(&server, Method::GET, &path, String::new());
        shown.await?.json()
    };
    let shown = until("the end of the job", look, |shown| shown["state"] == "done").await?;
    assert_eq!(shown["done"], json!(RUNS), "{shown}");
    eprintln!("{RUNS} runs were cancelled while servers were killed {kills} times");
    // Each kill moved the clock.
    invariants::hold_but(&home, &[&server], &["duties"]).await
}
