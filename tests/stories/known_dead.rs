//! A killed server is known dead by the lock of its state folder, and a stopped one keeps its lock.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Result, ensure};
use semel_testkit::peer::Behaviour;
use semel_testkit::semel::{self, Api, migrate};
use semel_testkit::{Client, Database, Peer, Process, Program, patience, until};

/// Far longer than the test may take: nothing here waits for the end of a lease.
const LEASE: &str = "10m";

async fn serve(database: &Database, folder: &Path) -> Result<(Process, SocketAddr)> {
    let folder = folder.display().to_string();
    let options = ["--lease", LEASE, "--state-dir", &folder];
    semel::serve(Program::semel()?, &database.url(), "127.0.0.1:0", &options).await
}

#[tokio::test]
async fn a_stopped_server_keeps_its_lock_and_the_runs_of_a_killed_one_continue_at_once()
-> Result<()> {
    let database = Database::empty().await?;
    let token = migrate(Program::semel()?, &database.url()).await?;
    let client = database.connect().await?;
    let (folder, peer) = (tempfile::tempdir()?, Peer::start().await?);
    let (mut first, address) = serve(&database, folder.path()).await?;
    let sender = Client::new(address, 4).with_patience(patience());
    let flow = format!(
        "flow: ask\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\nsteps:\n  - id: look\n    \
         http: {{ get: '{}', timeout: 60s }}\n",
        peer.url("/plain/ask")
    );
    Api::new(&sender, &token).publish("ask", &flow).await?;
    peer.next("/plain/", Behaviour::HoldBeforeAnswer).await?;
    let answer = sender.post("/hooks/default/ask", r#"{"id":"1"}"#).await?;
    ensure!(answer.status == 202, "{}", answer.text());
    peer.until_held(1, patience()).await?;
    let ended =
        "SELECT coalesce(string_agg(process, ' '), '') FROM sessions WHERE lost_at < expires_at";
    let ended = async || -> Result<String> { Ok(client.query_one(ended, &[]).await?.get(0)) };

    // The second tries the lock before it listens.
    first.sigstop()?;
    let (mut second, _) = serve(&database, folder.path()).await?;
    let while_stopped = ended().await?;
    second.sigkill()?;
    let killed = format!("pid {}", first.id());
    first.sigkill()?;
    let _third = serve(&database, folder.path()).await?;
    let process = until("a session to be ended", &ended, |it| !it.is_empty()).await?;
    let look = async || -> Result<String> {
        let state = "SELECT state::text FROM runs";
        Ok(client.query_one(state, &[]).await?.get(0))
    };
    let state = until("the run to end", look, |state| state != "active").await?;

    ensure!(while_stopped.is_empty(), "it lives: {while_stopped}");
    ensure!(process == killed, "{process}, and not {killed}");
    ensure!(state == "succeeded", "{state}");
    Ok(())
}
