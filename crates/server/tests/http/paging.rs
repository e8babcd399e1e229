//! Lists page by page: no item is lost or comes twice, whatever is written between the pages.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use semel_testkit::Connection;
use serde_json::Value;

use crate::console::Browser;
use crate::world::World;

/// How many items of each list there are before the first page is read.
const ITEMS: usize = 23;

/// The most pages that a test reads.
const PAGES_MAX: i32 = 60;

/// Items of every list, of which five at a time have the same time; `$1` tells them from others.
const FILL: &[&str] = &[
    "INSERT INTO runs (id, claim_id, namespace_id, release_id, partition_date, state, key, delivery_id,
                       accepted_at, ended_at)
     SELECT md5($1 || n)::uuid, md5($1 || n)::uuid, s.id, l.id, t.at::date, 'failed',
            convert_to($1 || n, 'UTF8'), md5($1 || n)::uuid, t.at, t.at
       FROM items n, namespaces s, releases l, at(n, $2) AS t (at) WHERE s.name = 'main'",
    "INSERT INTO effects (partition_date, id, run_id, namespace_id, step, kind, guard, state, attempt,
                          intended_at, settled_at, external_id)
     SELECT t.at::date, md5($1 || n)::uuid, md5($1 || n)::uuid, s.id, 'a', 'http', 'key', 'in_doubt', 1,
            t.at, t.at, 'ch_1'
       FROM items n, namespaces s, at(n, $2) AS t (at) WHERE s.name = 'main'",
    "INSERT INTO attention (subject_id, kind, partition_date, namespace_id, run_id, flow_id, step, since,
                            accepted_at, is_child)
     SELECT md5($1 || n)::uuid, 'doubt', t.at::date, s.id, md5($1 || n)::uuid, f.id, 'a', t.at, t.at, false
       FROM items n, namespaces s, flows f, at(n, $2) AS t (at) WHERE s.name = 'main'",
    "INSERT INTO waits (id, run_id, namespace_id, state, step, opened_at)
     SELECT md5($1 || n)::uuid, md5($1 || n)::uuid, s.id, 'open', 'a', t.at
       FROM items n, namespaces s, at(n, $2) AS t (at) WHERE s.name = 'main'",
    "INSERT INTO tasks (id, run_id, namespace_id, queue, step, attempt, lease_ms, opened_at, input)
     SELECT md5($1 || n)::uuid, md5($1 || n)::uuid, s.id, 'q', 'a', 1, 1000, t.at, '{}'
       FROM items n, namespaces s, at(n, $2) AS t (at) WHERE s.name = 'main'",
    "INSERT INTO approvals (id, run_id, namespace_id, flow, step, people, escalate, shown, digest, login,
                            opened_at)
     SELECT md5($1 || n)::uuid, md5($1 || n)::uuid, s.id, 'listed', 'a', '{ann}', '{}', '{}',
            repeat('0', 64), false, t.at
       FROM items n, namespaces s, at(n, $2) AS t (at) WHERE s.name = 'main'",
    "INSERT INTO duplicates (subject, stopped_by, fingerprint, namespace_id, run_id, verdict, count, first_at,
                             last_at)
     SELECT md5($1 || n / 2)::uuid, CASE n % 2 WHEN 0 THEN 'claim' ELSE 'replay' END, md5('f')::uuid, s.id,
            md5($1 || n)::uuid, 'held', 1, t.at, t.at
       FROM items n, namespaces s, at(n, $2) AS t (at) WHERE s.name = 'main'",
];

/// Every list with what is asked of it, and the member that names an item.
const LISTS: &[(&str, &str)] = &[
    ("/v1/runs?", "run"),
    ("/v1/runs?state=failed", "run"),
    ("/v1/runs?flow=listed", "run"),
    ("/v1/runs?flow=listed&state=failed", "run"),
    ("/v1/effects?", "effect"),
    ("/v1/effects?state=in_doubt", "effect"),
    ("/v1/effects?external_id=ch_1", "effect"),
    ("/v1/doubts?", "effect"),
    ("/v1/waits?", "wait"),
    ("/v1/waits?all=true", "wait"),
    ("/v1/tasks?", "task"),
    ("/v1/tasks?queue=q", "task"),
    ("/v1/tasks?all=true", "task"),
    ("/v1/approvals?", "approval"),
    ("/v1/approvals?all=true", "approval"),
    ("/v1/duplicates?", "duplicate"),
    ("/v1/duplicates?held=true", "duplicate"),
];

async fn fill(client: &Connection, tag: &str, items: usize, secs_from_now: i32) -> Result<()> {
    let numbers = format!(
        "CREATE OR REPLACE TEMPORARY VIEW items AS SELECT n FROM generate_series(1, {items}) AS n;
         CREATE OR REPLACE FUNCTION pg_temp.at(n int, secs int) RETURNS timestamptz LANGUAGE sql AS
         $$ SELECT date_trunc('day', now()) - interval '1 day' + make_interval(secs => secs + n / 5) $$"
    );
    client.batch_execute(&numbers).await?;
    for text in FILL {
        let text = text.replace("items n", "items AS i (n)");
        let text = text.replace("at(n, $2)", "pg_temp.at(n, $2)");
        let text = text.replace("$1", "$1::text");
        client
            .execute(&text, &[&tag, &secs_from_now])
            .await
            .with_context(|| text.clone())?;
    }
    Ok(())
}

#[tokio::test]
async fn no_item_is_lost_or_listed_twice_while_others_come() -> Result<()> {
    let world = World::start().await?;
    let steps = "trigger: { api: {} }\nsteps:\n  - id: a\n    kv: { set: x, value: 1 }\n";
    world.publish("listed", steps).await?;
    let client = world.database.connect().await?;
    fill(&client, "first", ITEMS, 0).await?;

    for (number, (list, name)) in LISTS.iter().enumerate() {
        let (all, end) = read(&world, list, name, "&limit=500").await?;
        assert!(all.len() >= ITEMS && end.is_none(), "{list}: {all:?}");
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut cursor = String::new();
        for page in 0.. {
            anyhow::ensure!(page < PAGES_MAX, "{list} has no end");
            let (items, next) = read(&world, list, name, &format!("&limit=3{cursor}")).await?;
            for id in items {
                *seen.entry(id).or_default() += 1;
            }
            let Some(next) = next else {
                break;
            };
            cursor = format!("&cursor={next}");
            if page < 2 {
                // Beside what has the same time, and before what was read.
                fill(&client, &format!("{number}-{page}"), 4, 3 + 30 * page).await?;
            }
        }

        let lost = all.iter().filter(|id| !seen.contains_key(*id)).count();
        let twice = seen.values().filter(|times| **times != 1).count();
        assert_eq!((lost, twice), (0, 0), "{list}: {seen:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_page_of_the_console_leads_to_the_next_until_the_last() -> Result<()> {
    let world = World::start().await?;
    let steps = "trigger: { api: {} }\nsteps:\n  - id: a\n    kv: { set: x, value: 1 }\n";
    world.publish("listed", steps).await?;
    let client = world.database.connect().await?;
    fill(&client, "many", 60, 0).await?;
    let browser = Browser::signed_in(&world).await?;

    for list in ["/doubts", "/approvals", "/duplicates?held=yes"] {
        let first = browser.page(&format!("/console/main{list}")).await?;
        let next = next_of(&first).with_context(|| format!("{list}: {first}"))?;
        let last = browser.page(&next).await?;

        assert_eq!(next_of(&last), None, "{list}: 60 items are two pages");
        assert!(!last.contains("class=\"empty\""), "{list}: {last}");
    }
    Ok(())
}

/// Where the next page is.
fn next_of(page: &str) -> Option<String> {
    let link = page.split("<p class=\"next\"><a href=\"").nth(1)?;
    let href = link.split('"').next()?;
    Some(href.replace("&amp;", "&").replace("&#38;", "&"))
}

/// The names of the items of a page, and where the next one begins.
async fn read(
    world: &World,
    list: &str,
    name: &str,
    rest: &str,
) -> Result<(Vec<String>, Option<String>)> {
    let path = format!("{list}{rest}").replace("?&", "?");
    let answer = world.client.call("GET", &path, None, None).await?.body;
    let items = answer["items"].as_array().context("items")?;
    let names = items.iter().map(|item| {
        let name = item[name].as_str();
        name.map(str::to_owned).context("a name")
    });
    let next = answer["cursor"].as_str().map(str::to_owned);
    Ok((names.collect::<Result<_>>()?, next))
}

#[tokio::test]
async fn a_made_up_cursor_is_refused_by_every_list() -> Result<()> {
    let world = World::start().await?;

    for (list, _) in LISTS {
        let path = format!("{list}&cursor=AAAA").replace("?&", "?");
        let answer = world.client.call("GET", &path, None, None).await;
        let refused = crate::world::refused(answer.map(|_| Value::Null))?;
        assert_eq!(refused, semel_api::Code::QueryInvalid, "{list}");
    }
    Ok(())
}
