//! Lists that used to end: jobs, replay plans and releases go on by cursor, in the API and in the console.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use semel_api::types::{PushFlow, ReleaseFilter, ReplayPlanFilter, RunJobFilter};
use semel_model::FlowName;

use crate::console::Browser;
use crate::world::World;

/// As many as two pages of the console have, and one more; all of one moment.
const FILL: &str = "
    INSERT INTO run_jobs (id, namespace_id, flow, verb, state, digest, actor, reason, due_at)
    SELECT gen_random_uuid(), n.id, 'orders', 'cancel', 'done', 'd', 'token:x', 'r', moment()
      FROM namespaces n, generate_series(1, 101) WHERE n.name = 'main';
    INSERT INTO replay_plans (id, namespace_id, flow, release, state, per_second, actor, due_at)
    SELECT gen_random_uuid(), n.id, 'orders', 1, 'done', 1, 'token:x', moment()
      FROM namespaces n, generate_series(1, 101) WHERE n.name = 'main'";

/// Follows the link to the next page until there is none. Says how many pages there were, and what stood
/// on them.
async fn walk(browser: &Browser<'_>, first: &str, link: &str) -> Result<(usize, BTreeSet<String>)> {
    let (mut path, mut pages, mut seen) = (first.to_owned(), 0, BTreeSet::new());
    loop {
        let page = browser.page(&path).await?;
        pages += 1;
        for rest in page.split(link).skip(1) {
            let id = rest.split('"').next().context("an end")?;
            ensure!(seen.insert(id.to_owned()), "{id} is on two pages");
        }
        let next = page.split("class=\"next\"><a href=\"").nth(1);
        match next.and_then(|rest| rest.split('"').next()) {
            Some(next) => path = next.replace("&amp;", "&"),
            None => return Ok((pages, seen)),
        }
    }
}

#[tokio::test]
async fn jobs_and_plans_are_listed_to_the_last_and_each_once() -> Result<()> {
    let world = World::start().await?;
    let client = world.database.connect().await?;
    client.batch_execute(FILL).await?;
    let browser = Browser::signed_in(&world).await?;

    let (mut jobs, mut filter) = (BTreeSet::new(), RunJobFilter::default());
    filter.limit = Some(10);
    loop {
        let page = world.client.list_run_jobs(&filter).await?;
        for job in page.items {
            ensure!(jobs.insert(job.job.to_string()), "{} twice", job.job);
        }
        match page.next {
            Some(next) => filter.cursor = Some(next),
            None => break,
        }
    }
    let (mut plans, mut filter) = (BTreeSet::new(), ReplayPlanFilter::default());
    filter.limit = Some(10);
    loop {
        let page = world.client.list_replay_plans(&filter).await?;
        for plan in page.items {
            ensure!(plans.insert(plan.plan.to_string()), "{} twice", plan.plan);
        }
        match page.next {
            Some(next) => filter.cursor = Some(next),
            None => break,
        }
    }
    let link = "href=\"/console/main/jobs/";
    let shown_jobs = walk(&browser, "/console/main/jobs", link).await?;
    let link = "href=\"/console/main/replays/";
    let shown_plans = walk(&browser, "/console/main/replays", link).await?;

    assert_eq!((jobs.len(), plans.len()), (101, 101));
    assert_eq!(shown_jobs, (3, jobs));
    assert_eq!(shown_plans, (3, plans));
    Ok(())
}

#[tokio::test]
async fn releases_are_listed_to_the_first() -> Result<()> {
    let world = World::start().await?;
    let flow: FlowName = "orders".parse()?;
    for number in 1..=5 {
        let source = format!(
            "flow: orders\nabout: text {number}\ntrigger: {{ api: {{}} }}\nsteps:\n  - {{ id: one, function: '1' }}\n"
        );
        world.client.push_flow(&flow, &PushFlow { source }).await?;
        let key = format!("publish {number}");
        world.client.publish_flow(&flow, &key).await?;
    }
    let client = world.database.connect().await?;
    // Two hundred more, as far as their lists are concerned.
    client
        .batch_execute(
            "INSERT INTO releases (flow_id, number, digest, source)
             SELECT l.flow_id, n, encode(sha256(n::text::bytea), 'hex'), l.source
               FROM releases l, generate_series(6, 205) AS n WHERE l.number = 5",
        )
        .await?;
    let browser = Browser::signed_in(&world).await?;

    let (mut numbers, mut filter) = (Vec::new(), ReleaseFilter::default());
    filter.limit = Some(50);
    loop {
        let page = world.client.list_releases(&flow, &filter).await?;
        numbers.extend(page.items.iter().map(|release| release.number));
        match page.next {
            Some(next) => filter.cursor = Some(next),
            None => break,
        }
    }
    let detail = world.client.get_flow(&flow).await?;
    let page = browser.page("/console/main/flows/orders").await?;
    let older = browser
        .page("/console/main/flows/orders/releases?cursor=6")
        .await?;

    let all: Vec<i32> = (1..=205).rev().collect();
    assert_eq!(numbers, all);
    assert_eq!(detail.releases.len(), 100);
    assert_eq!(detail.older_releases.as_deref(), Some("106"));
    ensure!(page.contains("/flows/orders/releases?cursor=106"), "{page}");
    ensure!(older.contains(">r1<") && older.contains(">r5<") && !older.contains(">r6<"));
    Ok(())
}
