//! Crashes where runs lead to other runs: lists, branches, calls, undos and resumed runs. A server
//! is killed at every commit on the way; in the end each effect has happened once, and each run has
//! come to the end that it would have come to.

use anyhow::{Context, Result, ensure};
use semel_testkit::peer::Behaviour;
use semel_testkit::{Cluster, Connection, Options, Peer, until};
use serde_json::json;

use crate::harness::Harness;
use crate::invariants;
use crate::queries::until_count;
use crate::servers::Home;

/// The servers' lease. The clock is moved past that of a dead one.
const LEASE: &str = "2s";

/// A flow, the commits at which a server dies, and what must have happened in the end.
struct Way {
    name: &'static str,
    steps: &'static str,
    /// Whose commits, behind the key, and which.
    points: &'static [(&'static str, &'static str)],
    /// How often each path of the destination has to have acted.
    acts: &'static [(&'static str, u64)],
    state: &'static str,
}

const WAYS: &[Way] = &[
    Way {
        name: "list",
        steps: "
  - id: each
    foreach:
      in: input.items
      key: item
      parallel: 2
      steps: [{ id: act, guard: key, http: { post: 'PEER/keyed/list/${{ input.id }}/${{ item }}', text: hi } }]
result: steps.each.result.succeeded
",
        points: &[
            ("", "accept.after"),
            ("", "other.before"),
            ("", "other.after"),
            ("", "load.before"),
            ("", "load.after"),
            ("", "loaded.before"),
            ("", "loaded.after"),
            ("", "begin.before"),
            ("", "begin.after"),
            ("/each/a", "intent.before"),
            ("/each/a", "intent.after"),
            ("/each/b", "outcome.before"),
            ("/each/b", "outcome.after"),
            ("", "record.before"),
            ("", "record.after"),
        ],
        acts: &[("a", 1), ("b", 1), ("c", 1)],
        state: "succeeded",
    },
    Way {
        name: "branches",
        steps: "
  - id: both
    parallel:
      branches:
        - steps: [{ id: one, guard: key, http: { post: 'PEER/keyed/branches/${{ input.id }}/one', text: hi } }]
        - steps: [{ id: pause, wait: { for: 100ms } }, { id: two, guard: key, http: { post: 'PEER/keyed/branches/${{ input.id }}/two', text: hi } }]
",
        points: &[
            ("", "loaded.after"),
            ("", "begin.after"),
            ("/both/0", "intent.after"),
            ("/both/1", "outcome.before"),
            ("/both/1", "outcome.after"),
            ("", "record.before"),
            ("", "record.after"),
        ],
        acts: &[("one", 1), ("two", 1)],
        state: "succeeded",
    },
    Way {
        name: "saga",
        steps: "
  - id: first
    guard: key
    http: { post: 'PEER/keyed/saga/${{ input.id }}/first', text: hi }
    undo: { http: { delete: 'PEER/keyed/saga/${{ input.id }}/undone' } }
  - { id: no, fail: { message: nothing left } }
on_failure: undo
",
        points: &[
            ("", "outcome.before"),
            ("", "outcome.after"),
        ],
        acts: &[("first", 1), ("undone", 1)],
        state: "failed",
    },
    Way {
        name: "call",
        steps: "
  - { id: other, call: { flow: called, input: { id: '${{ input.id }}' } } }
result: steps.other.result
",
        points: &[
            ("", "accept.after"),
            ("", "other.before"),
            ("", "other.after"),
            ("", "record.before"),
            ("", "record.after"),
        ],
        acts: &[("called", 1)],
        state: "succeeded",
    },
];

const CALLED: &str = "flow: called
trigger:
  api: {}
steps:
  - { id: act, guard: key, http: { post: 'PEER/keyed/call/${{ input.id }}/called', text: hi } }
";

#[tokio::test(flavor = "multi_thread")]
async fn runs_with_child_runs_and_calls_end_wherever_a_server_crashes() -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let harness = Harness::start()?;
    let mut server = harness.serve(&home, LEASE).await?;
    let peer = Peer::start().await?;
    home.publish(&server, "called", &CALLED.replace("PEER", &peer.url("")))
        .await?;
    for way in WAYS {
        let source = format!(
            "flow: {}\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\n\
             retry: {{ attempts: 9, delay: 50ms, max_delay: 200ms, within: 1h }}\nsteps:{}",
            way.name,
            way.steps.replace("PEER", &peer.url(""))
        );
        home.publish(&server, way.name, &source).await?;
    }
    let client = home.connect().await?;
    let mut cells = 0;
    for way in WAYS {
        for (index, (whose, point)) in way.points.iter().enumerate() {
            let id = format!("{}-{index}", way.name);
            let held = harness.arm(point, Some(&format!("{id}{whose}")));
            let body = format!(r#"{{"id":"{id}","items":["a","b","c"]}}"#);
            let (sender, path) = (
                server.client.clone(),
                format!("/hooks/default/{}", way.name),
            );
            let sent = body.clone();
            let sending = tokio::spawn(async move { sender.post(&path, sent).await });
            let held = held.until_held().await;
            let held = held.with_context(|| format!("{} {whose} {point}", way.name))?;
            home.kill(&mut server, LEASE).await?;
            drop(held);
            drop(sending);
            server = harness.serve(&home, LEASE).await?;
            // The sender has no answer, and sends again.
            let path = format!("/hooks/default/{}", way.name);
            let answer = server.client.post(&path, body).await?;
            ensure!(answer.status.is_success(), "{}", answer.text());
            judge(&client, &peer, way, &id)
                .await
                .with_context(|| format!("{} {whose} {point}", way.name))?;
            cells += 1;
        }
    }
    println!("{cells} cells, none with an effect too many or too few");
    invariants::hold_but(&home, &[&server], &["duties"]).await
}

/// A flow whose call fails at first. A repeat of its delivery resumes it.
const CALLER: &str = "flow: again
trigger:
  webhook: { auth: none, key: input.id, on_repeat: resume }
steps:
  - { id: other, call: { flow: refused, input: { id: '${{ input.id }}' } } }
";

const REFUSED: &str = "flow: refused
trigger:
  api: {}
steps:
  - { id: before, guard: key, http: { post: 'PEER/keyed/again/${{ input.id }}/before', text: hi } }
  - { id: act, guard: key, http: { post: 'PEER/keyed/again/${{ input.id }}/act', text: hi } }
";

/// The commits of a caller that calls again.
const AGAIN_POINTS: &[&str] = &[
    "intent.before",
    "intent.after",
    "other.before",
    "other.after",
    "record.before",
    "record.after",
];

/// What the destination and the called run must have done in the end.
const AGAIN: Way = Way {
    name: "again",
    steps: "",
    points: &[],
    acts: &[("before", 1), ("act", 1)],
    state: "succeeded",
};

/// A server dies at a commit of a resumed run that calls again. The called run continues once.
#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_call_ends_once_wherever_a_server_dies() -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let harness = Harness::start()?;
    let mut server = harness.serve(&home, LEASE).await?;
    let peer = Peer::start().await?;
    let refused = REFUSED.replace("PEER", &peer.url(""));
    home.publish(&server, "refused", &refused).await?;
    home.publish(&server, "again", CALLER).await?;
    let client = home.connect().await?;
    for (index, point) in AGAIN_POINTS.iter().enumerate() {
        let id = format!("again-{index}");
        let (path, body) = ("/hooks/default/again", format!(r#"{{"id":"{id}"}}"#));
        let act = format!("/keyed/again/{id}/act");
        peer.next(&act, Behaviour::RefuseWith(403)).await?;
        // The last point of a run that fails, so that it comes to none of those armed next.
        let last = harness.arm("record.after", Some(&id));
        let answer = server.client.post(path, body.clone()).await?;
        ensure!(answer.status.is_success(), "{}", answer.text());
        last.until_held().await?.let_go().await;
        let failed = format!(
            "SELECT count(*) FROM runs WHERE state = 'failed' AND key = convert_to('{id}', 'UTF8')"
        );
        until_count(&client, &failed, 1).await?;

        let held = harness.arm(point, Some(&id));
        let (sender, sent) = (server.client.clone(), body.clone());
        let sending = tokio::spawn(async move { sender.post(path, sent).await });
        let held = held.until_held().await;
        let held = held.with_context(|| (*point).to_owned())?;
        home.kill(&mut server, LEASE).await?;
        drop(held);
        drop(sending);
        server = harness.serve(&home, LEASE).await?;

        judge(&client, &peer, &AGAIN, &id)
            .await
            .with_context(|| (*point).to_owned())?;
        let called = "SELECT count(*) FROM runs r JOIN runs c
                          ON r.key = convert_to('run_' || replace(c.id::text, '-', '') || '/other', 'UTF8')
                       WHERE c.key = convert_to($1, 'UTF8')";
        let called: i64 = client.query_one(called, &[&id]).await?.get(0);
        ensure!(called == 1, "{called} called runs at {point}");
    }
    invariants::hold_but(&home, &[&server], &["duties"]).await
}

/// How many items the list has whose servers crash.
const ITEMS: u32 = 8;

/// A run that is taken time and again makes progress where its items do.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_makes_progress_is_not_quarantined_however_often_servers_crash() -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let harness = Harness::start()?;
    let mut server = harness.serve(&home, LEASE).await?;
    let source = "flow: worn
trigger:
  webhook: { auth: none, key: input.id }
steps:
  - id: each
    foreach:
      in: input.items
      key: item
      steps: [{ id: count, kv: { add: done } }]
";
    home.publish(&server, "worn", source).await?;
    let client = home.connect().await?;
    let items: Vec<u32> = (1..=ITEMS).collect();
    let delivery = json!({ "id": "1", "items": items });
    let mut begins = harness.arm("begin.after", Some("1"));
    let answer = server
        .client
        .post("/hooks/default/worn", delivery.to_string());
    ensure!(answer.await?.status == 202, "it is accepted");
    // One more than a run may be taken without progress.
    for _ in 0..7 {
        let held = begins.until_held().await?;
        // The item that it has begun ends, so that the next life has something to begin.
        until_count(
            &client,
            "SELECT count(*) FROM child_runs WHERE state = 'open'",
            0,
        )
        .await?;
        home.kill(&mut server, LEASE).await?;
        begins = harness.arm("begin.after", Some("1"));
        drop(held);
        server = harness.serve(&home, LEASE).await?;
    }
    begins.until_held().await?.let_go().await;

    let run = "SELECT count(*) FROM runs WHERE parent_id IS NULL AND state = 'succeeded'";
    until_count(&client, run, 1).await?;
    let done = "SELECT (value #>> '{}')::int8 FROM kv WHERE entry = 'done'";
    let done: i64 = client.query_one(done, &[]).await?.get(0);
    ensure!(
        done == i64::from(ITEMS),
        "{done} of {ITEMS} items were done"
    );
    invariants::hold_but(&home, &[&server], &["duties"]).await
}

/// A branch that ends after its run looked and before it sleeps wakes it all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_run_that_ends_while_its_parent_falls_asleep_wakes_it() -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let harness = Harness::start()?;
    let server = harness.serve(&home, "30s").await?;
    let source = "flow: nap
trigger:
  webhook: { auth: none, key: input.id }
steps:
  - id: both
    parallel:
      branches:
        - steps: [{ id: answer, wait: { callback: true, within: 1h } }]
        - steps: [{ id: tell, kv: { set: url, value: '${{ waits.answer.url }}' } }]
";
    home.publish(&server, "nap", source).await?;
    let client = home.connect().await?;
    let asleep = harness.arm("sleep.before", Some("1"));
    let answer = server.client.post("/hooks/default/nap", r#"{"id":"1"}"#);
    ensure!(answer.await?.status == 202, "it is accepted");
    let held = asleep.until_held().await?;
    let url = "SELECT value #>> '{}' FROM kv WHERE entry = 'url'";
    let url: String = client.query_one(url, &[]).await?.get(0);
    let path = &url[url.find("/callbacks/").context("an address")?..];
    ensure!(server.client.post(path, "1").await?.status.is_success());
    let branches = "SELECT count(*) FROM runs WHERE parent_id IS NOT NULL AND state = 'succeeded'";
    until_count(&client, branches, 2)
        .await
        .context("branches")?;
    held.let_go().await;

    let run = "SELECT count(*) FROM runs WHERE parent_id IS NULL AND state = 'succeeded'";
    until_count(&client, run, 1).await.context("the run")?;
    invariants::hold(&home, &[&server]).await
}

/// What the record and the destination say in the end.
async fn judge(client: &Connection, peer: &Peer, way: &Way, id: &str) -> Result<()> {
    let look = async || -> Result<String> {
        let find =
            "SELECT state::text FROM runs WHERE key = convert_to($1, 'UTF8') AND parent_id IS NULL";
        let rows = client.query(find, &[&id]).await?;
        ensure!(rows.len() == 1, "{} runs of one key", rows.len());
        Ok(rows[0].get(0))
    };
    let state = until("the run to end", look, |state| state != "active").await?;
    ensure!(state == way.state, "the run is {state}");
    for (path, wanted) in way.acts {
        let effects = peer
            .count(&format!("/keyed/{}/{id}/{path}", way.name))
            .await?
            .effects;
        ensure!(effects == *wanted, "{path} happened {effects} times");
    }
    let left = "SELECT count(*) FROM queue q JOIN runs r ON r.id = q.run_id
                 WHERE r.key = convert_to($1, 'UTF8') OR r.key LIKE convert_to($1 || '/%', 'UTF8')";
    let left: i64 = client.query_one(left, &[&id]).await?.get(0);
    ensure!(left == 0, "{left} runs are left in the queue");
    Ok(())
}
