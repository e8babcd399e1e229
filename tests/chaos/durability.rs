//! What everything else relies on: a commit that PostgreSQL has acknowledged survives a kill. A
//! machine whose disk lies about syncs fails here, before it fails anywhere subtler.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use anyhow::Result;
use semel_testkit::{Cluster, Connection, Options, until};

/// How often the server is killed.
const KILLS: i64 = 3;

/// How many sessions write at once.
const WRITERS: i64 = 4;

/// How many acknowledged commits lie between two kills.
const COMMITS_BETWEEN_KILLS: i64 = 50;

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledged_commit_survives_the_killing_of_the_server() -> Result<()> {
    let mut cluster = Cluster::start(Options::durable()).await?;
    let admin = cluster.server().connect("postgres").await?;
    admin
        .batch_execute("CREATE TABLE notes (writer bigint, number bigint)")
        .await?;

    let mut acknowledged = 0;
    for kill in 0..KILLS {
        acknowledged += write_until_killed(&mut cluster, kill).await?;
        cluster.restart().await?;
    }

    let admin = cluster.server().connect("postgres").await?;
    let kept: i64 = admin
        .query_one("SELECT count(*) FROM notes", &[])
        .await?
        .get(0);
    assert!(
        kept >= acknowledged,
        "{kept} of {acknowledged} acknowledged commits are left"
    );
    // Each writer has at most one commit in flight when the server dies.
    let unknown_max = KILLS * WRITERS;
    assert!(
        kept <= acknowledged + unknown_max,
        "{kept} commits for {acknowledged} answers"
    );
    Ok(())
}

/// Kills the server in the midst of writing; tells how many commits were acknowledged.
async fn write_until_killed(cluster: &mut Cluster, kill: i64) -> Result<i64> {
    let acknowledged = Arc::new(AtomicI64::new(0));
    // All connect before one begins: the others could have the server killed meanwhile.
    let mut clients = Vec::new();
    for _ in 0..WRITERS {
        clients.push(cluster.server().connect("postgres").await?);
    }
    let writers: Vec<_> = (0..WRITERS)
        .zip(clients)
        .map(|(writer, client)| {
            let count = Arc::clone(&acknowledged);
            tokio::spawn(write(client, kill * WRITERS + writer, count))
        })
        .collect();
    let look = async || Ok(acknowledged.load(Ordering::SeqCst));
    until("commits", look, |count| *count >= COMMITS_BETWEEN_KILLS).await?;
    cluster.kill()?;
    for writer in writers {
        writer.await?;
    }
    Ok(acknowledged.load(Ordering::SeqCst))
}

/// Commits one row after another until the connection breaks.
async fn write(client: Connection, writer: i64, acknowledged: Arc<AtomicI64>) {
    for number in 0_i64.. {
        let insert = "INSERT INTO notes VALUES ($1, $2)";
        if client.execute(insert, &[&writer, &number]).await.is_err() {
            break;
        }
        acknowledged.fetch_add(1, Ordering::SeqCst);
    }
}
