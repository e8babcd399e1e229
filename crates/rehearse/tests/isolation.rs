//! A rehearsal reaches nothing that is live: no table, no destination, no trace.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use semel_engine::{Actor, Engine, IntakeError, StagedDelivery, Start};
use semel_model::{Key, NamespaceName, TriggerKind};
use semel_store::namespaces;
use semel_testkit::until;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::stage::World;

const FLOW: &str = "
flow: pay
trigger:
  webhook: { auth: none, key: input.id }
keep: 30d
steps:
  - id: charge
    http: { connection: bank, post: /charges, json: { order: '${{ input.id }}' } }
    guard: review
  - id: later
    wait: { for: 30d }
  - id: told
    emit: { event: paid, data: { id: '${{ input.id }}' } }
  - id: count
    kv: { add: paid }
examples:
  - name: one
    input: { id: a1 }
";

/// A flow with requests to several kinds of destinations.
const EVERYWHERE: &str = "
flow: everywhere
trigger: { manual: { key: input.id } }
keep: 30d
steps:
  - id: known
    http: { connection: bank, get: '/orders/${{ input.id }}' }
  - id: charge
    http: { connection: bank, put: '/charges/${{ input.id }}', json: { order: '${{ input.id }}' } }
  - id: row
    db: { connection: shop, execute: 'INSERT INTO paid VALUES ($1)', values: ['${{ input.id }}'] }
  - id: mail
    notify: { connection: mail, to: mia@customer.example, text: Thank you. }
    guard: review
examples:
  - name: one
    input: { id: a1 }
";

/// A flow that needs no connection.
const PLAIN: &str = "
flow: pay
trigger:
  webhook: { auth: none, key: input.id }
keep: 30d
steps:
  - id: count
    kv: { add: paid }
";

/// How many rows each live table has, and which transaction wrote last.
const LIVE: &str = "
    SELECT string_agg(format('%s %s', c.relname,
               (xpath('/row/c/text()', query_to_xml(format(
                   'SELECT count(*) || '' '' || coalesce(max(xmin::text::bigint), 0) AS c FROM public.%I',
                   c.relname), false, true, '')))[1]::text), E'\\n' ORDER BY c.relname)
      FROM pg_class c
     WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'";

#[tokio::test]
async fn no_live_table_is_written_and_no_schema_is_left() -> Result<()> {
    let world = World::start().await?;
    let client = world.database.connect().await?;
    let before: String = client.query_one(LIVE, &[]).await?.get(0);

    let report = world.rehearse("pay.flow.yaml", FLOW, json!({})).await?;

    let after: String = client.query_one(LIVE, &[]).await?.get(0);
    assert!(report.passed, "{}", report.to_text());
    assert_eq!(before, after);
    let left = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'semel_rehearsal%'";
    assert_eq!(client.query_one(left, &[]).await?.get::<_, i64>(0), 0);
    Ok(())
}

/// A listener in the place of every destination, and how many connections it has accepted.
async fn listen() -> Result<(SocketAddr, Arc<AtomicUsize>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let calls = Arc::new(AtomicUsize::new(0));
    let counting = calls.clone();
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counting.fetch_add(1, Ordering::SeqCst);
        }
    });
    Ok((address, calls))
}

/// Nothing but the stage keeps a rehearsal from a destination here: the address is open to flows, and
/// the same flow on an engine that serves arrives there.
#[tokio::test]
async fn no_destination_is_connected_to() -> Result<()> {
    let mut world = World::start().await?;
    world.options.allow_private = vec!["127.0.0.0/8".parse()?];
    let (address, calls) = listen().await?;
    let (host, port) = (address.ip().to_string(), address.port());
    let connections = json!({
        "bank": { "to": { "http": { "base_url": format!("http://{address}") } } },
        "shop": { "to": { "postgres": { "host": host, "port": port, "database": "d", "user": "u" } } },
        "mail": { "to": { "smtp": { "host": host, "port": port, "from": "a@shop.example", "tls": "off" } } }
    });

    let file = "everywhere.flow.yaml";
    let report = world
        .rehearse(file, EVERYWHERE, connections.clone())
        .await?;

    assert!(report.cases.len() > 20, "{}", report.to_text());
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    perform_live(&world, &connections).await?;
    let look = async || Ok(calls.load(Ordering::SeqCst));
    until("a live run to connect", look, |calls| *calls > 0).await?;
    Ok(())
}

/// Starts a run of the flow on an engine that serves.
async fn perform_live(world: &World, connections: &Value) -> Result<()> {
    let namespace: NamespaceName = "default".parse()?;
    let namespace_id = namespaces::ensure(world.cell.home(), &namespace).await?;
    let engine = Engine::start(world.cell.clone(), world.options.clone()).await?;
    let by = Actor {
        namespace_id,
        actor: "test",
    };
    for (name, connection) in connections.as_object().into_iter().flatten() {
        let connection = serde_json::from_value(connection.clone())?;
        let kept = engine.keep_connection(by, name, &connection).await;
        kept.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    }
    let flow = engine.push_flow(namespace_id, EVERYWHERE).await?;
    let published = engine.publish_flow(namespace_id, &flow, "test").await?;
    engine
        .promote_flow(namespace_id, &flow, published.number, "test")
        .await?;
    let start = Start {
        namespace_id,
        namespace,
        flow,
        trigger: TriggerKind::Manual,
        input: b"{\"id\": \"a1\"}".to_vec(),
        key: None,
        by: None,
    };
    engine.start_run(start).await?;
    Ok(())
}

/// Leases of half a minute, far more than an hour of them.
const LEASES: usize = 200;

/// Each of these works on the engine of a rehearsal: what every case of `no_live_table_is_written_and_no_schema_is_left`
/// is made of. Who may start such an engine: `tests/tidy/rehearsals.rs`.
#[tokio::test]
async fn an_engine_that_serves_takes_nothing_of_a_rehearsal() -> Result<()> {
    let world = World::start().await?;
    let namespace = "default".parse()?;
    let namespace_id = namespaces::ensure(world.cell.home(), &namespace).await?;
    let engine = Engine::start(world.cell.clone(), world.options.clone()).await?;
    let flow = engine.push_flow(namespace_id, PLAIN).await?;
    let published = engine.publish_flow(namespace_id, &flow, "test").await?;
    engine
        .promote_flow(namespace_id, &flow, published.number, "test")
        .await?;
    let now = engine.take_pulse().await?.now;

    let delivery = StagedDelivery {
        namespace_id,
        namespace,
        flow,
        trigger: TriggerKind::Webhook,
        input: b"{\"id\": \"a1\"}".to_vec(),
        headers: Vec::new(),
        query: Vec::new(),
        caller_key: Key::new(b"k".to_vec())?,
        nominal: now,
    };
    let refused = engine.deliver_staged(delivery).await;
    engine.jump(std::time::Duration::from_secs(86_400)).await?;
    for _ in 0..LEASES {
        engine.outlast_lease().await?;
    }

    assert!(matches!(refused, Err(IntakeError::SignatureInvalid)));
    let later = engine.take_pulse().await?.now;
    assert!(later.duration_since(now).as_secs() < 3_600);
    assert!(engine.has_live_session(), "its lease was not outlasted");
    engine.shutdown().await;
    Ok(())
}
