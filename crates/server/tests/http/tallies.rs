//! Counts of what happened, and what waits for people, over HTTP.

use anyhow::Result;
use semel_api::Code;
use semel_api::types::{SeriesFilter, StartRun, TallyFilter};
use semel_model::Span;
use semel_testkit::peer::Behaviour;
use semel_testkit::{Peer, until};
use serde_json::json;

use crate::world::{World, patience_span, refused};

/// A run that succeeds, a repeat of it, one that fails and one that stops: every one is counted once,
/// without a row that counts having been written by any of them.
#[tokio::test]
async fn deliveries_runs_and_effects_are_counted_by_flow_and_what_waits_is_shown() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    let charging = format!(
        "trigger: {{ api: {{}} }}\nsteps:\n  - id: charge\n    guard: review\n    \
         http: {{ post: '{}', json: {{}}, timeout: 1s }}\n",
        bank.url("/plain/charges")
    );
    let charging = world.publish("charging", &charging).await?;
    let failing = "trigger: { api: {} }\nsteps:\n  - { id: no, fail: { code: no, message: no } }\n";
    let failing = world.publish("failing", failing).await?;
    let patience = Some(patience_span());
    let start = async |flow, key: &str| -> Result<()> {
        let start = StartRun {
            key: Some(key.to_owned()),
            input: json!({}),
            ..StartRun::default()
        };
        world.client.start_run(flow, &start, patience).await?;
        Ok(())
    };

    start(&charging, "one").await?;
    start(&charging, "one").await?;
    start(&failing, "two").await?;
    bank.next("/plain/", Behaviour::CloseWithoutAnswer).await?;
    start(&charging, "three").await?;

    let last_hour = TallyFilter {
        last: Some(Span::from_secs(3_600)),
        ..TallyFilter::default()
    };
    let wanted = [
        ("charging", "accepted", 2),
        ("charging", "effect_done", 1),
        ("charging", "effect_doubted", 1),
        ("charging", "repeat", 1),
        ("charging", "stopped", 1),
        ("charging", "succeeded", 1),
        ("failing", "accepted", 1),
        ("failing", "failed", 1),
    ];
    let look = async || {
        let tallies = world.client.sum_tallies(&last_hour).await?;
        let mut items: Vec<(String, String, i64)> = tallies
            .items
            .into_iter()
            .map(|it| (it.flow, it.what, it.count))
            .collect();
        items.sort();
        Ok(items)
    };
    let is_all = |items: &Vec<(String, String, i64)>| {
        let seen = items.iter();
        seen.map(|(flow, what, count)| (flow.as_str(), what.as_str(), *count))
            .eq(wanted)
    };
    until("every tally", look, is_all).await?;
    let day = TallyFilter {
        flow: Some(failing),
        last: None,
        steps: false,
    };
    assert_eq!(world.client.sum_tallies(&day).await?.items.len(), 2);

    let by_step = TallyFilter {
        flow: Some(charging),
        last: None,
        steps: true,
    };
    let steps = world.client.sum_tallies(&by_step).await?.items;
    let steps: Vec<_> = steps
        .iter()
        .map(|it| (it.step.as_deref(), it.what.as_str(), it.count))
        .collect();
    let charge = Some("charge");
    assert_eq!(
        steps,
        [(charge, "effect_done", 1), (charge, "effect_doubted", 1)]
    );
    let of_none = TallyFilter {
        flow: None,
        ..by_step
    };
    let refusal = refused(world.client.sum_tallies(&of_none).await)?;
    assert_eq!(refusal, Code::QueryInvalid);

    let hours = world.client.sum_series(&SeriesFilter::default()).await?;
    let of = |what: &str| -> i64 {
        let same = hours.items.iter().filter(|it| it.what == what);
        same.map(|it| it.count).sum()
    };
    assert_eq!(
        (of("accepted"), of("repeat"), of("failed"), of("stale")),
        (3, 1, 1, 0),
        "by the hour it is the same"
    );
    for (last, every) in [("1h", "1m"), ("24h", "1h"), ("7d", "3h"), ("30d", "1d")] {
        let of_one = SeriesFilter {
            flow: Some("failing".parse()?),
            last: Some(last.parse()?),
        };
        let found = world.client.sum_series(&of_one).await?;
        assert_eq!(found.every, every.parse()?, "{last}");
        let counts: Vec<_> = found.items.iter().map(|it| (&*it.what, it.count)).collect();
        assert_eq!(counts, [("accepted", 1), ("failed", 1)], "{last}");
    }

    let overview = world.client.get_overview().await?;
    let health = &overview.health;
    assert_eq!((health.servers, health.due, health.refused), (1, 0, 0));
    let [doubt] = overview.waiting.as_slice() else {
        anyhow::bail!("one doubt waits: {overview:?}");
    };
    assert_eq!(
        (doubt.what.as_str(), doubt.count, doubt.has_more),
        ("doubt", 1, false)
    );
    assert!(doubt.since.is_some());
    Ok(())
}
