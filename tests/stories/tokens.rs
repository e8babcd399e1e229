//! Tokens and their rights, through the command line.

use anyhow::{Context, Result, ensure};
use semel_testkit::{Cluster, Options, until};
use serde_json::Value;

use crate::asked::object;
use crate::desk::Desk;
use crate::migrate::{migrate, semel};

const COUNT: &str = "flow: count
trigger: { manual: {} }
steps:
  - { id: add, kv: { add: counted } }
result: steps.add.result
";

/// The text at a path of what a command wrote.
fn text<'a>(told: &'a Value, path: &str) -> Result<&'a str> {
    let found = told.pointer(path).and_then(Value::as_str);
    found.with_context(|| format!("{path} of {told}"))
}

#[tokio::test]
async fn a_token_may_do_what_it_was_made_for_and_nothing_else() -> Result<()> {
    let desk = Desk::open(&[("count", COUNT)]).await?;

    let (none, list) = object(&desk, "semel token create ci").await?;
    let create = "semel token create ci --right start --right read";
    let (created, told) = object(&desk, create).await?;
    let (_, again) = object(&desk, create).await?;
    let ci = format!("SEMEL_TOKEN='{}'", text(&told, "/data/token")?);
    let start = format!("{ci} semel run start count --key 1 --wait 30s");
    let (started, run) = object(&desk, &start).await?;
    let cancel = format!(
        "{ci} semel run cancel {} --reason x",
        text(&run, "/data/run")?
    );
    let (denied, refused) = object(&desk, &cancel).await?;
    let (tokens, _) = object(&desk, &format!("{ci} semel token list")).await?;
    let revoke = format!(
        "semel token revoke {} --reason lost",
        text(&told, "/data/id")?
    );
    let (revoked, _) = object(&desk, &revoke).await?;
    let (after, unknown) = object(&desk, &format!("{ci} semel run list")).await?;

    assert_eq!((none, created, started), (2, 0, 0), "{list} {told} {run}");
    ensure!(
        text(&list, "/error/message")?.contains("\n  settle "),
        "{list}"
    );
    assert_eq!(again["data"]["token"], told["data"]["token"]);
    assert_eq!((denied, tokens), (7, 7), "{refused}");
    assert_eq!(text(&refused, "/error/code")?, "right-missing");
    let message = text(&refused, "/error/message")?;
    assert_eq!(message, "the token `ci` does not have the right `operate`");
    assert_eq!((revoked, after), (0, 7), "{unknown}");
    assert_eq!(text(&unknown, "/error/code")?, "unauthorized");
    Ok(())
}

#[tokio::test]
async fn a_token_that_may_only_start_runs_starts_them() -> Result<()> {
    let desk = Desk::open(&[("count", COUNT)]).await?;
    let (_, told) = object(&desk, "semel token create shop --right start").await?;
    let shop = format!("SEMEL_TOKEN='{}'", text(&told, "/data/token")?);

    let (first, run) = object(&desk, &format!("{shop} semel run start count --key 1")).await?;
    let shown = format!("semel run watch {}", text(&run, "/data/run")?);
    let (ended, _) = object(&desk, &shown).await?;
    let (again, same) = object(&desk, &format!("{shop} semel run start count --key 1")).await?;

    assert_eq!((first, ended, again), (0, 0, 0), "{run} {same}");
    assert_eq!(run["data"]["run"], same["data"]["run"]);
    Ok(())
}

#[tokio::test]
async fn without_any_token_the_database_lets_an_operator_in() -> Result<()> {
    let cluster = Cluster::start(Options::durable()).await?;
    let admin = cluster.server().connect("postgres").await?;
    admin.batch_execute("CREATE DATABASE semel").await?;
    let database = cluster.server().url("semel");
    migrate(&database, &["--no-token"]).await?;

    let made = semel(&["token", "create", "rescue", "--all-rights"], &database).await?;
    let listed = semel(&["token", "list"], &database).await?;
    let id = text(&made, "/data/id")?;
    let revoked = semel(&["token", "revoke", id, "--reason", "done"], &database).await?;
    let left = semel(&["token", "list"], &database).await?;
    let missing = format!("tok_{}", "0".repeat(32));
    let unknown = semel(&["token", "revoke", &missing], &database).await?;
    let forever = [
        "token",
        "create",
        "x",
        "--right",
        "read",
        "--expires-in",
        "366d",
    ];
    let forever = semel(&forever, &database).await?;

    ensure!(text(&made, "/data/token")?.starts_with("semel_"), "{made}");
    assert_eq!(text(&listed, "/data/items/0/id")?, id);
    ensure!(revoked["data"]["revoked_at"].is_string(), "{revoked}");
    assert_eq!(left["data"]["items"], serde_json::json!([]));
    assert_eq!(unknown["outcome"], "not_found", "{unknown}");
    assert_eq!(forever["outcome"], "usage", "{forever}");
    let database = cluster.server().connect("semel").await?;
    let acts = "SELECT actor || ' ' || action FROM audit ORDER BY id";
    let acts = database.query(acts, &[]).await?;
    let acts: Vec<String> = acts.iter().map(|row| row.get(0)).collect();
    assert_eq!(acts, ["operator token.create", "operator token.revoke"]);
    Ok(())
}

#[tokio::test]
async fn tokens_that_an_earlier_version_derived_are_found_and_revoked() -> Result<()> {
    let cluster = Cluster::start(Options::durable()).await?;
    let admin = cluster.server().connect("postgres").await?;
    admin.batch_execute("CREATE DATABASE semel").await?;
    let database = cluster.server().url("semel");
    migrate(&database, &["--no-token"]).await?;
    for name in ["old", "new"] {
        semel(&["token", "create", name, "--right", "read"], &database).await?;
    }
    let tokens_of = |told: &Value| -> Result<Value> {
        let lines = told["data"].as_array().context("lines")?;
        let line = lines.iter().find(|line| line["subject"] == "tokens");
        line.cloned().context("a line about tokens")
    };

    let before = tokens_of(&semel(&["doctor"], &database).await?)?;
    let client = cluster.server().connect("semel").await?;
    let mark = "UPDATE tokens SET derived = DEFAULT WHERE name = 'old'";
    client.batch_execute(mark).await?;
    let marked = tokens_of(&semel(&["doctor"], &database).await?)?;
    let revoke = ["token", "revoke", "--derived", "--reason", "the key leaked"];
    let revoked = semel(&revoke, &database).await?;
    let after = tokens_of(&semel(&["doctor"], &database).await?)?;
    let neither = semel(&["token", "revoke"], &database).await?;

    assert_eq!(before["state"], "ok", "{before}");
    assert_eq!(after["state"], "ok", "{after}");
    assert_eq!(marked["state"], "warn");
    ensure!(text(&marked, "/found")?.contains("old (tok_"), "{marked}");
    assert_eq!(revoked["data"]["count"], 1, "{revoked}");
    assert_eq!(text(&revoked, "/data/tokens/0/name")?, "old");
    assert_eq!(neither["outcome"], "usage", "{neither}");
    Ok(())
}

#[tokio::test]
async fn the_audit_record_is_exported_verified_and_a_changed_line_found() -> Result<()> {
    let desk = Desk::open(&[("count", COUNT)]).await?;
    for name in ["ada", "ben"] {
        let create = format!("semel token create {name} --role viewer");
        let (created, told) = object(&desk, &create).await?;
        ensure!(created == 0, "{told}");
    }
    let (listed, acts) = object(&desk, "semel audit list --action token.create --limit 1").await?;
    // Sealed within seconds.
    let export = async || object(&desk, "semel audit export audit.jsonl").await;
    let is_whole = |(_, exported): &(i64, Value)| {
        let position = exported["data"]["position"].as_i64();
        position.is_some_and(|position| position >= 3)
    };
    let exported = until("three sealed acts", export, is_whole).await?;
    let (whole, seal) = object(&desk, "semel audit verify audit.jsonl").await?;
    let change = "sed 's/token.create/token.revoke/' audit.jsonl > changed.jsonl; \
                  semel audit verify changed.jsonl";
    let (changed, why) = object(&desk, change).await?;
    let cut = "sed 2d audit.jsonl > cut.jsonl; semel audit verify cut.jsonl";
    let (missing, gap) = object(&desk, cut).await?;

    assert_eq!(listed, 0, "{acts}");
    assert_eq!(acts["data"]["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(whole, 0, "{seal} {exported:?}");
    assert_eq!(text(&seal, "/data/digest")?.len(), 64);
    assert_ne!(changed, 0);
    ensure!(
        text(&why, "/error/message")?.contains("it was changed"),
        "{why}"
    );
    assert_ne!(missing, 0);
    ensure!(
        text(&gap, "/error/message")?.contains("line 2: an act is missing"),
        "{gap}"
    );
    Ok(())
}

#[tokio::test]
async fn an_export_of_another_record_is_not_continued() -> Result<()> {
    let desk = Desk::open(&[("count", COUNT)]).await?;
    let (created, told) = object(&desk, "semel token create ada --role viewer").await?;
    ensure!(created == 0, "{told}");
    // Sealed within seconds.
    let export = async || object(&desk, "semel audit export audit.jsonl").await;
    let has_some = |(_, exported): &(i64, Value)| {
        let position = exported["data"]["position"].as_i64();
        position.is_some_and(|position| position >= 1)
    };
    until("a sealed act", export, has_some).await?;
    let digest = "f".repeat(64);
    let other = format!(
        "sed '$s/\"digest\":\"[0-9a-f]*\"/\"digest\":\"{digest}\"/' audit.jsonl > other.jsonl; \
         cp other.jsonl kept.jsonl; semel audit export other.jsonl"
    );
    let further = "sed '$s/\"position\":[0-9]*/\"position\":9000/' audit.jsonl > further.jsonl; \
                   semel audit export further.jsonl";

    for refused in [other.as_str(), further] {
        let (code, why) = object(&desk, refused).await?;
        assert_ne!(code, 0, "{why}");
        let message = text(&why, "/error/message")?;
        ensure!(message.contains("does not belong to this record"), "{why}");
    }
    let same = desk.say("cmp other.jsonl kept.jsonl && echo same").await?;
    let (own, exported) = object(&desk, "semel audit export audit.jsonl").await?;

    ensure!(same.contains("same"), "nothing was written: {same}");
    assert_eq!(own, 0, "its own is continued: {exported}");
    Ok(())
}

#[tokio::test]
async fn a_worker_s_token_is_for_its_queue_and_its_network() -> Result<()> {
    let desk = Desk::open(&[("count", COUNT)]).await?;
    let create = "semel token create resizer --role worker --queue images --queue thumbs";

    let (made, told) = object(&desk, &format!("{create} --network 127.0.0.0/8")).await?;
    let printed = format!("{create} --network 127.0.0.0/8 2>&1");
    let printed = desk.say(&printed).await?;
    let (_, far) = object(&desk, &format!("{create} --network 10.0.0.0/8,192.0.2.7")).await?;
    let (odd, refused) = object(&desk, &format!("{create} --network 10.1.2.3/8")).await?;
    let listed = desk.say("semel token list").await?;
    let as_worker = async |told: &Value, queue: &str| {
        let token = text(told, "/data/token")?;
        let work = format!("semel worker --queue {queue} --until-idle 1s -- true 2>&1");
        desk.say(&format!("SEMEL_TOKEN='{token}' {work}; echo exit $?"))
            .await
    };
    let own = as_worker(&told, "images").await?;
    let other = as_worker(&told, "mail").await?;
    let outside = as_worker(&far, "images").await?;

    assert_eq!((made, odd), (0, 2), "{told} {refused}");
    assert_eq!(told["data"]["networks"], serde_json::json!(["127.0.0.0/8"]));
    assert_eq!(
        told["data"]["queues"],
        serde_json::json!(["images", "thumbs"])
    );
    ensure!(
        printed.contains("it is accepted only from 127.0.0.0/8"),
        "{printed}"
    );
    ensure!(
        printed.contains("tasks of these queues: images, thumbs"),
        "{printed}"
    );
    for shown in [
        "NETWORKS",
        "QUEUES",
        "127.0.0.0/8",
        "10.0.0.0/8, 192.0.2.7/32",
    ] {
        ensure!(listed.contains(shown), "{shown}: {listed}");
    }
    let message = text(&refused, "/error/message")?;
    ensure!(message.contains("write 10.0.0.0/8"), "{message}");
    ensure!(own.ends_with("exit 0\n"), "{own}");
    ensure!(
        other.contains("the queue `mail`, only on images, thumbs"),
        "{other}"
    );
    ensure!(other.ends_with("exit 7\n"), "{other}");
    ensure!(outside.contains("not authorized"), "{outside}");
    ensure!(outside.ends_with("exit 7\n"), "{outside}");
    Ok(())
}
