//! The first start of an installation: the schema by a unit, the token by an operator.

use anyhow::Result;
use semel_testkit::{Cluster, Options, Program, patience};
use serde_json::Value;

pub(crate) async fn migrate(database: &str, flags: &[&str]) -> Result<Value> {
    semel(&[&["migrate"], flags].concat(), database).await
}

/// What a command that reaches the database writes.
pub(crate) async fn semel(words: &[&str], database: &str) -> Result<Value> {
    let done = Program::semel()?
        .args(words)
        .args(["--json", "--database", database])
        .run(patience())
        .await?;
    Ok(serde_json::from_str(&done.stdout)?)
}

#[tokio::test]
async fn a_unit_that_migrates_leaves_no_token_in_its_log() -> Result<()> {
    let cluster = Cluster::start(Options::durable()).await?;
    let admin = cluster.server().connect("postgres").await?;
    admin.batch_execute("CREATE DATABASE semel").await?;
    let database = cluster.server().url("semel");

    let by_unit = migrate(&database, &["--no-token"]).await?;
    let by_operator = migrate(&database, &[]).await?;
    let both = migrate(&database, &["--no-token", "--new-token"]).await?;

    assert!(by_unit["data"]["applied"][0].is_string(), "{by_unit}");
    assert!(by_unit["data"]["token"].is_null(), "{by_unit}");
    assert!(by_operator["data"]["token"].is_string(), "the first token");
    assert_eq!(both["outcome"], "usage", "{both}");
    Ok(())
}
