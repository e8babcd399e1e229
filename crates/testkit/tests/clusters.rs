//! Clusters and databases: what they give, and that they leave nothing behind.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::fs;
use std::io::{BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, bail};
use semel_testkit::{Cluster, Database, Options, Server, until};
use tokio_postgres::NoTls;

/// Set for the process that is killed with a cluster in its hands.
const VICTIM: &str = "SEMEL_TESTKIT_VICTIM";

#[tokio::test]
async fn a_killed_cluster_restarts_with_what_was_committed() {
    let mut cluster = Cluster::start(Options::quick()).await.unwrap();
    let client = cluster.server().connect("postgres").await.unwrap();
    client
        .batch_execute("CREATE TABLE kept (id bigint); INSERT INTO kept VALUES (7)")
        .await
        .unwrap();

    cluster.kill().unwrap();
    assert!(
        client.simple_query("SELECT 1").await.is_err(),
        "the connection died with the server"
    );
    cluster.restart().await.unwrap();

    let client = cluster.server().connect("postgres").await.unwrap();
    let kept: i64 = client
        .query_one("SELECT id FROM kept", &[])
        .await
        .unwrap()
        .get(0);
    assert_eq!(kept, 7);
}

#[tokio::test]
async fn a_dropped_cluster_leaves_neither_process_nor_directory() {
    let cluster = Cluster::start(Options::quick()).await.unwrap();
    let home = cluster.home().to_owned();

    drop(cluster);

    assert!(!home.exists(), "the directory is gone");
    assert_eq!(processes_that_mention(&home), Vec::<i32>::new());
}

#[tokio::test]
async fn a_killed_and_abandoned_cluster_leaves_nothing_either() {
    let mut cluster = Cluster::start(Options::quick()).await.unwrap();
    let home = cluster.home().to_owned();
    cluster.kill().unwrap();

    drop(cluster);

    assert!(!home.exists(), "the directory is gone");
}

#[tokio::test]
async fn a_cluster_ends_with_an_owner_that_is_killed() {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "clusters::holds_a_cluster_until_killed",
            "--ignored",
            "--nocapture",
        ])
        .env(VICTIM, "yes")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let home = read_home(BufReader::new(owner.stdout.take().unwrap())).unwrap();
    assert!(home.join("data").exists(), "the cluster stands");

    owner.kill().unwrap();
    owner.wait().unwrap();

    let left = async || Ok((home.exists(), processes_that_mention(&home)));
    until("the end of a cluster", left, |(home, processes)| {
        !home && processes.is_empty()
    })
    .await
    .unwrap();
}

#[tokio::test]
#[ignore = "the victim of a_cluster_ends_with_an_owner_that_is_killed"]
async fn holds_a_cluster_until_killed() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    let cluster = Cluster::start(Options::quick()).await.unwrap();
    println!("home={}", cluster.home().display());
    std::io::stdout().flush().unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn each_test_gets_its_own_copy_of_one_migrated_template() {
    let migrated = AtomicUsize::new(0);
    let migrate = async |url: String| {
        migrated.fetch_add(1, Ordering::SeqCst);
        create_table(&url).await
    };
    let cluster = Cluster::start(Options::quick()).await.unwrap();

    let one = Database::new_on(cluster.server(), migrate).await.unwrap();
    let other = Database::new_on(cluster.server(), migrate).await.unwrap();
    let client = one.connect().await.unwrap();
    client
        .execute("INSERT INTO notes VALUES (1)", &[])
        .await
        .unwrap();

    assert_eq!(
        migrated.load(Ordering::SeqCst),
        1,
        "the template is made once"
    );
    assert_eq!(count_notes(&one).await, 1);
    assert_eq!(
        count_notes(&other).await,
        0,
        "the rows of one test are not another's"
    );
}

#[tokio::test]
async fn a_template_that_was_left_half_made_is_made_again() {
    let cluster = Cluster::start(Options::quick()).await.unwrap();
    let broken = Database::new_on(cluster.server(), async |_| bail!("killed on the way")).await;
    assert!(broken.is_err());

    let whole = Database::new_on(cluster.server(), async |url: String| {
        create_table(&url).await
    });

    assert_eq!(count_notes(&whole.await.unwrap()).await, 0);
}

#[tokio::test]
async fn a_database_is_dropped_with_its_value_though_connections_are_open() {
    let database = Database::empty().await.unwrap();
    let (server, name) = (database.server().clone(), database.name().to_owned());
    let _open = database.connect().await.unwrap();

    drop(database);

    assert!(!is_there(&server, &name).await);
}

#[tokio::test]
async fn the_shared_cluster_is_one() {
    let (one, other) = tokio::join!(Cluster::shared(), Cluster::shared());

    assert_eq!(one.unwrap().address(), other.unwrap().address());
}

#[tokio::test]
async fn a_cluster_answers_over_tcp_with_the_settings_that_promises_rest_on() {
    let server = Cluster::shared().await.unwrap();
    let (client, connection) = tokio_postgres::connect(&server.url("postgres"), NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);

    for (name, expected) in [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("TimeZone", "UTC"),
    ] {
        let shown: String = client
            .query_one("SELECT current_setting($1)", &[&name])
            .await
            .unwrap()
            .get(0);
        assert_eq!(shown, expected, "{name}");
    }
}

async fn create_table(url: &str) -> Result<()> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client
        .batch_execute("CREATE TABLE notes (id bigint)")
        .await?)
}

async fn count_notes(database: &Database) -> i64 {
    let client = database.connect().await.unwrap();
    client
        .query_one("SELECT count(*) FROM notes", &[])
        .await
        .unwrap()
        .get(0)
}

async fn is_there(server: &Server, name: &str) -> bool {
    let client = server.connect("postgres").await.unwrap();
    let found = client
        .query_opt("SELECT 1 FROM pg_database WHERE datname = $1", &[&name])
        .await;
    found.unwrap().is_some()
}

fn read_home(output: impl std::io::BufRead) -> Result<PathBuf> {
    for line in output.lines() {
        if let Some((_, home)) = line?.split_once("home=") {
            return Ok(PathBuf::from(home));
        }
    }
    bail!("the victim ended without a cluster")
}

fn processes_that_mention(home: &Path) -> Vec<i32> {
    let wanted = home.to_str().unwrap();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&command).contains(wanted)
        })
        .collect()
}
