//! Events behind a database that is far away: each receiver has each once, and none stays.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use semel_testkit::{Cluster, Options, Program, Proxy};
use serde_json::json;

use crate::campaign::{is_measured, keep_figures, scaled};
use crate::crowd::{self, Post};
use crate::invariants;
use crate::queries::{SUCCEEDED, until_count, until_none};
use crate::servers::{Home, serve};

/// How long an answer of the database is on its way.
const AWAY: Duration = Duration::from_millis(20);

/// How many flows take each event, and how many events there are, unless `SEMEL_EVENT_RECEIVERS` and `SEMEL_EVENTS` say
/// otherwise: with every change, and in a campaign. One after another, these answers alone take longer than the ten
/// seconds that a transaction may stand idle.
const RECEIVERS: usize = 20;
const RECEIVERS_FULL: usize = 40;
const EVENTS: usize = 40;
const EVENTS_FULL: usize = 120;

/// How long after the end of the last run an event may be left, where it is measured.
const EMPTY_WITHIN: Duration = Duration::from_secs(60);

/// How many connections the sender has.
const SENDERS: usize = 16;

const TELLER: &str = "flow: teller
trigger:
  webhook: { auth: none, key: input.id }
steps:
  - { id: tell, emit: { event: told, data: { id: '${{ input.id }}' } } }
";

#[tokio::test(flavor = "multi_thread")]
async fn events_for_many_receivers_are_through_however_far_the_database_is() -> Result<()> {
    let receivers = scaled("SEMEL_EVENT_RECEIVERS", RECEIVERS, RECEIVERS_FULL)?;
    let events = scaled("SEMEL_EVENTS", EVENTS, EVENTS_FULL)?;
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let proxy = Proxy::start(cluster.server().address()).await?;
    let server = serve(Program::semel()?, &home.url_at(proxy.address()), "10s").await?;
    home.publish(&server, "teller", TELLER).await?;
    for number in 0..receivers {
        let name = format!("hears-{number}");
        let source = format!(
            "flow: {name}\ntrigger:\n  event: {{ name: told }}\nsteps:\n  \
             - {{ id: count, kv: {{ add: '{name}/${{{{ input.id }}}}' }} }}\n"
        );
        home.publish(&server, &name, &source).await?;
    }
    let client = home.connect().await?;

    proxy.delay(AWAY);
    let told = (0..events).map(|id| Post {
        subject: id,
        path: "/hooks/default/teller".to_owned(),
        body: format!(r#"{{"id":"{id}"}}"#),
    });
    for (_, answer) in crowd::send(&server, SENDERS, told.collect()).await? {
        ensure!(answer.status == 202, "{}", answer.text());
    }

    until_count(&client, SUCCEEDED, events * (1 + receivers)).await?;
    let ended = Instant::now();
    until_none(&client, "SELECT count(*) FROM outbox").await?;
    let empty_after = ended.elapsed();
    let once = "SELECT count(*) FROM kv WHERE starts_with(entry, 'hears-') AND value::text = '1'";
    until_count(&client, once, events * receivers).await?;
    keep_figures(
        "events",
        &json!({
            "events": events,
            "receivers": receivers,
            "database_and_back_ms": AWAY.as_millis() as u64,
            "empty_after_the_last_run_s": empty_after.as_secs_f64(),
            "goal_s": EMPTY_WITHIN.as_secs(),
        }),
    )?;
    ensure!(
        !is_measured() || empty_after <= EMPTY_WITHIN,
        "{empty_after:?} until no event was left"
    );
    proxy.delay(Duration::ZERO);
    invariants::hold(&home, &[&server]).await
}
