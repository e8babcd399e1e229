//! Lists whose items have large payloads: a page ends after a number of bytes, and the next one begins there.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_api::Client;
use semel_api::types::{ClaimTasks, TaskFilter};
use semel_model::{Right, Rights};
use semel_server::{BodyBudget, ServerOptions};
use semel_testkit::Connection;
use serde_json::Value;

use crate::world::{World, add_token_with};

/// How many items each list has, of which two do not fit on one page.
const ITEMS: usize = 5;

/// How many bytes of payload each item has: three fifths of what a page may have.
const PAYLOAD_BYTES: usize = 630_000;

/// The most bytes of a page: what it may have, and its last item.
const PAGE_BYTES_MAX: usize = (1 << 20) + PAYLOAD_BYTES;

/// Items of every list that shows payloads, all of different times.
const FILL: &[&str] = &[
    "INSERT INTO runs (id, claim_id, namespace_id, release_id, partition_date, state, key, delivery_id,
                       accepted_at, ended_at, result)
     SELECT md5('r' || n)::uuid, md5('r' || n)::uuid, s.id, l.id, pg_temp.at(n)::date, 'succeeded',
            convert_to('k' || n, 'UTF8'), md5('r' || n)::uuid, pg_temp.at(n), pg_temp.at(n), $1::text::json
       FROM items n, namespaces s, releases l WHERE s.name = 'main'",
    "INSERT INTO waits (id, run_id, namespace_id, state, step, opened_at, ended_at, payload)
     SELECT md5('w' || n)::uuid, md5('r1')::uuid, s.id, 'answered', 'a', pg_temp.at(n), pg_temp.at(n), $1::text::json
       FROM items n, namespaces s WHERE s.name = 'main'",
    "INSERT INTO tasks (id, run_id, namespace_id, queue, step, attempt, lease_ms, opened_at, input)
     SELECT md5('t' || n)::uuid, md5('r1')::uuid, s.id, 'q', 'a', 1, 3600000, pg_temp.at(n), $1::text::json
       FROM items n, namespaces s WHERE s.name = 'main'",
    "INSERT INTO approvals (id, run_id, namespace_id, flow, step, people, escalate, shown, digest, login,
                            opened_at)
     SELECT md5('a' || n)::uuid, md5('r1')::uuid, s.id, 'listed', 'a', '{ann}', '{}', $1::text::json,
            repeat('0', 64), false, pg_temp.at(n)
       FROM items n, namespaces s WHERE s.name = 'main'",
    "INSERT INTO duplicates (subject, stopped_by, fingerprint, namespace_id, run_id, verdict, count, first_at,
                             last_at, payload)
     SELECT md5('d' || n)::uuid, 'claim', md5('f')::uuid, s.id, md5('r1')::uuid, 'held', 1, pg_temp.at(n),
            pg_temp.at(n), $1::text::json
       FROM items n, namespaces s WHERE s.name = 'main'",
];

/// Every list that shows payloads, and the member that names an item.
const LISTS: &[(&str, &str)] = &[
    ("/v1/runs?", "run"),
    ("/v1/runs?state=succeeded", "run"),
    ("/v1/waits?all=true", "wait"),
    ("/v1/waits?all=true&run=RUN", "wait"),
    ("/v1/tasks?", "task"),
    ("/v1/tasks?all=true", "task"),
    ("/v1/approvals?", "approval"),
    ("/v1/duplicates?", "duplicate"),
    ("/v1/duplicates?held=true", "duplicate"),
    ("/v1/duplicates?run=RUN", "duplicate"),
];

async fn fill(client: &Connection, items: usize) -> Result<()> {
    let places = format!(
        "CREATE OR REPLACE FUNCTION pg_temp.at(n int) RETURNS timestamptz LANGUAGE sql AS
         $$ SELECT date_trunc('day', now()) - interval '1 day' + make_interval(mins => n) $$;
         CREATE TEMPORARY VIEW numbers AS SELECT n FROM generate_series(1, {items}) AS n"
    );
    client.batch_execute(&places).await?;
    let payload = format!("\"{}\"", "x".repeat(PAYLOAD_BYTES));
    for text in FILL {
        let text = text.replace("items n", "numbers AS i (n)");
        client
            .execute(&text, &[&payload])
            .await
            .with_context(|| text.clone())?;
    }
    Ok(())
}

/// A world with items of every list, and the first of its runs.
async fn filled(options: ServerOptions) -> Result<(World, String)> {
    filled_with(options, ITEMS).await
}

async fn filled_with(options: ServerOptions, items: usize) -> Result<(World, String)> {
    let world = World::start_with(options).await?;
    let steps = "trigger: { api: {} }\nsteps:\n  - id: a\n    kv: { set: x, value: 1 }\n";
    world.publish("listed", steps).await?;
    let client = world.database.connect().await?;
    fill(&client, items).await?;
    let first = "SELECT 'run_' || replace(md5('r1')::uuid::text, '-', '')";
    let run = client.query_one(first, &[]).await?.get(0);
    Ok((world, run))
}

/// The text of a page.
async fn page(world: &World, token: &str, path: &str) -> Result<String> {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    let answer = world
        .bare
        .send(Method::GET, path, &headers, "".into())
        .await?;
    ensure!(answer.status == 200, "{path}: {}", answer.text());
    Ok(answer.text())
}

/// How often each item of a list came, page by page; and the bytes of the largest page.
async fn walk(
    world: &World,
    token: &str,
    list: &str,
    name: &str,
) -> Result<(BTreeMap<String, usize>, usize)> {
    let (mut seen, mut largest) = (BTreeMap::<String, usize>::new(), 0);
    let mut cursor = String::new();
    for number in 0.. {
        ensure!(number <= ITEMS, "{list} has no end");
        let path = format!("{list}&limit=500{cursor}").replace("?&", "?");
        let text = page(world, token, &path).await?;
        largest = largest.max(text.len());
        let answer: Value = serde_json::from_str(&text)?;
        for item in answer["items"].as_array().context("items")? {
            let id = item[name].as_str().context("a name")?;
            *seen.entry(id.to_owned()).or_default() += 1;
        }
        let Some(next) = answer["cursor"].as_str() else {
            break;
        };
        cursor = format!("&cursor={next}");
    }
    Ok((seen, largest))
}

#[tokio::test]
async fn a_page_of_large_payloads_ends_after_its_bytes_and_none_is_lost() -> Result<()> {
    // Less memory than one page takes while it is made: it is enough for one after the other.
    let (world, run) = filled(ServerOptions {
        body_budget: BodyBudget::of_bytes(4 << 20),
        ..ServerOptions::default()
    })
    .await?;

    for (list, name) in LISTS {
        let list = list.replace("RUN", &run);
        let (seen, largest) = walk(&world, &world.token, &list, name).await?;

        assert_eq!(seen.len(), ITEMS, "{list}: {seen:?}");
        assert!(seen.values().all(|times| *times == 1), "{list}: {seen:?}");
        let is_bounded = (PAYLOAD_BYTES..PAGE_BYTES_MAX + 10_000).contains(&largest);
        assert!(is_bounded, "{list}: {largest} bytes");
    }
    Ok(())
}

#[tokio::test]
async fn a_list_of_which_much_is_left_can_be_asked_for_again_and_again() -> Result<()> {
    // More than is thrown away behind a page: its statement is cancelled, and the connection closed.
    let items = (12 << 20) / PAYLOAD_BYTES;
    let (world, _) = filled_with(ServerOptions::default(), items).await?;

    // More requests than there are connections for lists.
    for number in 0..12 {
        let text = page(&world, &world.token, "/v1/tasks?limit=500").await?;
        let answer: Value = serde_json::from_str(&text)?;
        let is_first = answer["items"].as_array().context("items")?.len() == 1;
        assert!(
            is_first && answer["cursor"].is_string(),
            "{number}: {answer}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn named_runs_with_large_results_are_listed_page_by_page() -> Result<()> {
    let (world, _) = filled(ServerOptions::default()).await?;
    let client = world.database.connect().await?;
    let names = "SELECT string_agg('run_' || replace(id::text, '-', ''), ',') FROM runs";
    let names: String = client.query_one(names, &[]).await?.get(0);

    let path = format!("/v1/runs?ids={names}");
    let (seen, largest) = walk(&world, &world.token, &path, "run").await?;

    assert_eq!(seen.len(), ITEMS, "{seen:?}");
    assert!(seen.values().all(|times| *times == 1), "{seen:?}");
    assert!(largest < PAGE_BYTES_MAX + 10_000, "{largest} bytes");
    Ok(())
}

#[tokio::test]
async fn what_a_token_may_not_see_of_repeats_leaves_room_for_others() -> Result<()> {
    let (world, _) = filled(ServerOptions::default()).await?;
    let reader = add_token_with(world.engine.cell(), "reader", Right::Read.into()).await?;

    let text = page(&world, &reader, "/v1/duplicates?limit=500").await?;

    let answer: Value = serde_json::from_str(&text)?;
    assert_eq!(answer["items"].as_array().context("items")?.len(), ITEMS);
    assert!(
        answer["cursor"].is_null() && !text.contains("xxx"),
        "{answer}"
    );
    Ok(())
}

#[tokio::test]
async fn a_claim_takes_as_many_tasks_as_their_inputs_leave_room_for() -> Result<()> {
    let (world, _) = filled(ServerOptions::default()).await?;
    let rights: Rights = Right::Work.into();
    let token = add_token_with(world.engine.cell(), "worker", rights).await?;
    let worker = Client::new(world.client.base(), &token)?;
    let asked = ClaimTasks {
        queue: "q".to_owned(),
        max: Some(100),
        wait: None,
        worker: None,
        lease: None,
    };

    let mut claimed = Vec::new();
    for number in 0..ITEMS {
        let one = worker.claim_tasks(&asked, &format!("c-{number}")).await?;
        claimed.push(one.tasks.len());
    }
    let again = worker.claim_tasks(&asked, "c-0").await?;
    let held = TaskFilter {
        queue: Some("q".to_owned()),
        ..TaskFilter::default()
    };
    let held = world.client.list_tasks(&held).await?;

    assert_eq!(
        claimed,
        [2, 2, 1, 0, 0],
        "a page of inputs, and the last beyond it"
    );
    assert_eq!(
        again.tasks.len(),
        2,
        "a repeat gets what the first one claimed"
    );
    assert!(held.next.is_some() && held.items.len() < ITEMS);
    Ok(())
}
