//! Everything under one key in one answer; entries of `kv`; the keys of a flow.

use anyhow::{Context, Result};
use bytes::Bytes;
use semel_api::types::{EntryFilter, FoundKey, KeyFilter, RunStatus, StartRun, UploadResource};
use semel_api::{Client, Code};

use semel_model::{FlowName, ResourceRef, Right, Rights, RunId, Span};
use semel_testkit::Peer;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::world::{World, add_token_with, patience_span, refused};

async fn start(world: &World, flow: &FlowName, key: &str, input: Value) -> Result<RunId> {
    let start = StartRun {
        key: Some(key.to_owned()),
        input,
        ..StartRun::default()
    };
    Ok(world.client.start_run(flow, &start, None).await?.body.run)
}

/// An order that a run charges under its own key and then waits for; that is an item of a list, the
/// value of an event that another run waits for, and the name of an entry.
async fn order(world: &World, bank: &Peer) -> Result<[RunId; 3]> {
    let charging = format!(
        "trigger: {{ api: {{}} }}\nsteps:\n  - id: charge\n    key: input.order\n    \
         scope: namespace\n    guard: review\n    http: {{ post: '{}', json: {{}} }}\n    \
         external_id: result.id\n  - id: answer\n    wait: {{ callback: true, within: 1h }}\n",
        bank.url("/plain/charges")
    );
    let charging = world.publish("charging", &charging).await?;
    let listing = "trigger: { api: {} }\nsteps:\n  - id: each\n    foreach:\n      \
                   in: input.orders\n      as: order\n      key: order\n      steps:\n        \
                   - { id: seen, kv: { set: '${{ order }}', value: true } }\n";
    let listing = world.publish("listing", listing).await?;
    let waiting = "trigger: { api: {} }\nsteps:\n  - id: paid\n    \
                   wait: { event: order.paid, match: event.order == input.order, within: 1h }\n";
    let waiting = world.publish("waiting", waiting).await?;

    let charged = start(world, &charging, "o-1", json!({ "order": "o-1" })).await?;
    start(world, &charging, "o-1", json!({ "order": "o-1" })).await?;
    world.until_waiting(charged).await?;
    let orders = json!({ "orders": ["o-0", "o-1"] });
    let listed = start(world, &listing, "night", orders).await?;
    world.until_state(listed, RunStatus::Succeeded).await?;
    let waits = start(world, &waiting, "w", json!({ "order": "o-1" })).await?;
    world.until_waiting(waits).await?;
    // Of another order.
    let other = start(world, &charging, "o-2", json!({ "order": "o-2" })).await?;
    world.until_waiting(other).await?;
    Ok([charged, listed, waits])
}

#[tokio::test]
async fn one_key_finds_its_run_item_effect_named_effect_wait_and_duplicate() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    let [charged, listed, waits] = order(&world, &bank).await?;

    let found = world.client.find_key("o-1").await?;

    let runs: Vec<RunId> = found.runs.iter().map(|run| run.id).collect();
    assert_eq!(runs, [charged]);
    let items: Vec<(RunId, &str)> = found
        .items
        .iter()
        .map(|found| (found.parent, found.item.key.as_str()))
        .collect();
    assert_eq!(items, [(listed, "o-1")]);
    let mut kinds: Vec<&str> = found.effects.iter().map(|it| it.kind.as_str()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["http", "kv"]);
    let named: Vec<(&str, Option<RunId>)> = found
        .named_effects
        .iter()
        .map(|effect| (effect.key.as_str(), effect.run))
        .collect();
    assert_eq!(named, [("o-1", Some(charged))]);
    let mut waiting: Vec<RunId> = found.waits.iter().map(|wait| wait.run).collect();
    waiting.sort_unstable();
    let mut expected = [charged, waits];
    expected.sort_unstable();
    assert_eq!(waiting, expected);
    let stopped: Vec<RunId> = found.duplicates.iter().map(|it| it.run).collect();
    assert_eq!(stopped, [charged]);
    let entry = found.entry.context("the entry")?;
    assert_eq!(
        (entry.entry.as_str(), entry.value),
        ("o-1", Some(json!(true)))
    );
    assert_eq!(found.cut, [""; 0]);
    Ok(())
}

#[tokio::test]
async fn what_a_destination_calls_it_finds_the_effect_that_made_it() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    let [charged, ..] = order(&world, &bank).await?;
    let effects = world.client.get_run(charged).await?.effects;
    let effect = effects.first().context("an effect")?;
    let external = effect.external_id.as_deref().context("its identifier")?;

    let by_identifier = world.client.find_key(external).await?;
    let by_key = world.client.find_key(&effect.id.to_string()).await?;

    for found in [by_identifier, by_key] {
        let ids: Vec<_> = found.effects.iter().map(|it| (it.id, it.run)).collect();
        assert_eq!(ids, [(effect.id, charged)]);
    }
    Ok(())
}

#[tokio::test]
async fn payloads_and_strangers_see_nothing_of_it() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    order(&world, &bank).await?;

    let rights = Rights::from(Right::Read);
    let token = add_token_with(world.engine.cell(), "reader", rights).await?;
    let reader = Client::new(world.client.base(), &token)?;
    let found = reader.find_key("o-1").await?;
    let denied = refused(reader.get_entry("o-1").await)?;
    let stranger = world.stranger().await?;
    let elsewhere = stranger.find_key("o-1").await?;
    let entries = stranger.list_entries(&EntryFilter::default()).await?;

    let FoundKey { runs, entry, .. } = &found;
    assert_eq!(runs.len(), 1);
    assert_eq!(entry.as_ref().and_then(|entry| entry.value.clone()), None);
    assert_eq!(denied, Code::RightMissing);
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
    assert_eq!(entries.items, []);
    Ok(())
}

#[tokio::test]
async fn entries_and_keys_are_listed_and_read() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    order(&world, &bank).await?;
    let client = &world.client;

    let all = client.list_entries(&EntryFilter::default()).await?;
    let none = EntryFilter {
        prefix: Some("o-1x".to_owned()),
        cursor: None,
    };
    let none = client.list_entries(&none).await?;
    let read = client.get_entry("o-0").await?;
    let missing = refused(client.get_entry("o-9").await)?;
    let flow: FlowName = "charging".parse()?;
    let mut filter = KeyFilter {
        limit: Some(1),
        cursor: None,
    };
    let mut keys = Vec::new();
    loop {
        let page = client.list_keys(&flow, &filter).await?;
        keys.extend(page.items.into_iter().map(|found| found.key));
        match page.next {
            Some(cursor) => filter.cursor = Some(cursor),
            None => break,
        }
    }

    let names: Vec<&str> = all.items.iter().map(|it| it.entry.as_str()).collect();
    assert_eq!(names, ["o-0", "o-1"]);
    assert!(all.items.iter().all(|entry| entry.value.is_none()));
    assert_eq!(none.items, []);
    assert_eq!(read.value, Some(json!(true)));
    assert_eq!(missing, Code::EntryNotFound);
    assert_eq!(keys, ["o-2", "o-1"]);
    Ok(())
}

#[tokio::test]
async fn more_entries_than_one_read_looks_at_are_all_listed_once() -> Result<()> {
    const ENTRIES: i32 = 5_000;
    let world = World::start().await?;
    let database = world.database.connect().await?;
    // The slot of an entry is not looked at here: a list reads whatever is there.
    let fill = "INSERT INTO kv (slot, namespace_id, entry, value)
                SELECT (n * 7) % 11, s.id, 'e-' || n, '1'
                  FROM generate_series(1, $1) AS n, namespaces s WHERE s.name = 'main'";
    database.execute(fill, &[&ENTRIES]).await?;

    let mut filter = EntryFilter::default();
    let mut listed = Vec::new();
    let mut pages = 0;
    loop {
        let page = world.client.list_entries(&filter).await?;
        listed.extend(page.items.into_iter().map(|entry| entry.entry));
        pages += 1;
        match page.next {
            Some(cursor) => filter.cursor = Some(cursor),
            None => break,
        }
    }

    listed.sort();
    listed.dedup();
    assert_eq!(listed.len(), 5_000);
    assert!((5..=6).contains(&pages), "{pages} pages");
    Ok(())
}

#[tokio::test]
async fn an_upload_is_kept_under_the_digest_of_its_bytes_or_not_at_all() -> Result<()> {
    let (world, peer) = (World::start().await?, Peer::start().await?);
    let sends = format!(
        "trigger: {{ api: {{}} }}\nsteps:\n  - id: send\n    guard: review\n    \
         http: {{ post: '{}', file: '${{{{ input.file }}}}' }}\n",
        peer.url("/plain/files")
    );
    let flow = world.publish("sends", &sends).await?;
    let bytes = Bytes::from(vec![b'x'; 3 << 20]);
    let name = |bytes: &[u8]| ResourceRef::from_digest(Sha256::digest(bytes).into());
    let how = UploadResource {
        name: Some("a.csv".to_owned()),
        keep: Some(Span::from_secs(60)),
    };

    let kept = name(&bytes);
    let first = world
        .client
        .upload_resource(kept, &how, "text/csv", bytes.clone())
        .await?;
    let again = world
        .client
        .upload_resource(kept, &how, "text/csv", bytes.clone())
        .await?;
    let wrong = world
        .client
        .upload_resource(name(b"else"), &how, "text/csv", bytes)
        .await;
    let wrong = refused(wrong)?;
    let listed = world.client.list_resources(&Default::default()).await?;
    let input = json!({ "file": kept.to_string() });
    let run = start(&world, &flow, "f", input).await?;
    world.until_state(run, RunStatus::Succeeded).await?;

    assert_eq!((first.bytes, first.run, first.step), (3 << 20, None, None));
    assert_eq!(again.resource, kept);
    assert_eq!(wrong, Code::BodyInvalid);
    assert_eq!(listed.items.len(), 1);
    let patience = patience_span();
    let ended = world.client.await_run(run, patience).await?;
    assert_eq!(ended.state, RunStatus::Succeeded);
    Ok(())
}
