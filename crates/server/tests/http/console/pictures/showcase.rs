//! A small shop, as an operator meets it on a working day: orders that were charged once although they came
//! several times, one whose courier did not answer, a refund that waits for a decision.

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_api::Client;
use semel_api::types::{PutConnection, RunStatus, StartRun};
use semel_model::{EffectId, RunId, WaitId};
use semel_testkit::peer::Behaviour;
use semel_testkit::{Peer, until_some};
use serde_json::{Value, json};

use crate::world::{World, add_token_of, patience_span};

const ORDER_PAID: &str = r#"about: A paid order becomes one charge, one parcel and one message to the warehouse.
trigger:
  webhook: { auth: none, key: input.id }
keep: 30d
steps:
  - id: charge
    guard: key
    http:
      connection: bank
      post: /keyed/charges
      json: { order: '${{ input.id }}', amount: '${{ input.amount }}' }
      timeout: 2s
    external_id: '"ch_" + string(result.id)'
    allow: [{ code: money-unapproved, because: the customer has approved it in the shop }]
  - id: lines
    foreach:
      in: input.lines
      key: item.sku
      steps:
        - { id: reserve, kv: { add: reserved } }
  - id: route
    switch:
      cases:
        - when: input.express
          steps:
            - id: courier
              guard: review
              http: { connection: bank, post: /plain/pickups, json: { order: '${{ input.id }}' }, timeout: 2s }
      default:
        - { id: parcel, kv: { add: parcels } }
  - id: tell
    emit: { event: order.shipped }
result: '{"charge": steps.charge.external_id}'
examples:
  - { name: one, input: { id: order-1, amount: 4200, express: false, lines: [{ sku: mug }] } }
"#;

const REFUND: &str = r#"about: A person decides each refund.
trigger: { api: {} }
steps:
  - id: decide
    approval: { from: [ada], show: '${{ input }}', within: 2d }
result: steps.decide.result.approved
"#;

const REPORT: &str = "about: The figures of the day, on weekdays at half past eight.\n\
    trigger: { schedule: { cron: '30 8 * * MON-FRI', zone: Europe/Berlin } }\n\
    steps:\n  - { id: count, kv: { add: reports } }\n";

const IMPORT: &str = "about: Takes the price list over.\ntrigger: { api: {} }\nsteps:\n  \
    - { id: read, fail: { code: prices-missing, message: 'the list has no prices' } }\n";

/// What servers would have counted in the hours before: a shop that sleeps at night.
const HOURS: &str = "
    INSERT INTO tallies (namespace_id, unit, began_at, flow_id, what, count)
    SELECT f.namespace_id, 'hour', date_trunc('hour', moment(), 'UTC') - make_interval(hours => h.back), f.id,
           w.what::tally_kind, greatest(1, round(h.busy * w.share))::int8
      FROM (SELECT back, 20 + 90 * power(sin(pi() * (25 - back) / 26), 2) + 14 * sin(back * 2.3) AS busy
              FROM generate_series(1, 24) AS back) AS h,
           (VALUES ('accepted', 1.0), ('succeeded', 0.96), ('failed', 0.025), ('repeat', 0.3),
                   ('mismatch', 0.012)) AS w (what, share),
           flows f
     WHERE f.name = 'order-paid' AND (w.what <> 'mismatch' OR h.back % 7 = 3) AND (w.what <> 'failed' OR h.back % 3 = 0)";

/// The shop.
pub(super) struct Showcase {
    pub(super) world: World,
    operator: Client,
    _bank: Peer,
    /// A run whose delivery came three times, once with another payload.
    pub(super) repeated: RunId,
    /// A run that is stopped at a doubt.
    pub(super) doubted: RunId,
    /// The doubt.
    pub(super) doubt: EffectId,
    /// What waits for a decision.
    pub(super) approval: WaitId,
}

impl Showcase {
    pub(super) async fn start() -> Result<Self> {
        let (world, bank) = (World::start().await?, Peer::start().await?);
        connect(&world, &bank).await?;
        for (flow, text) in [
            ("order-paid", ORDER_PAID),
            ("refund", REFUND),
            ("report", REPORT),
            ("import-prices", IMPORT),
        ] {
            world.publish(flow, text).await?;
        }
        let client = world.database.connect().await?;
        let filled = client.execute(HOURS, &[]).await?;
        ensure!(filled > 60, "{filled} hours");

        for number in 1_036..1_042 {
            deliver(&world, &order(number, 1_900 + number, false)).await?;
        }
        start(&world, "import-prices", "prices-2026-11", json!({})).await?;
        let repeated = deliver(&world, &order(1_042, 4_200, false)).await?;
        deliver(&world, &order(1_042, 4_200, false)).await?;
        deliver(&world, &order(1_042, 4_900, false)).await?;
        bank.next("/plain/", Behaviour::CloseWithoutAnswer).await?;
        let doubted = deliver(&world, &order(1_043, 8_650, true)).await?;
        for number in 1_044..1_046 {
            deliver(&world, &order(number, 700 + number, false)).await?;
        }
        let look = async || Ok(world.client.list_doubts().await?.items.pop());
        let doubt = until_some("a doubt", look).await?;
        let asked = json!({ "order": "order-1017", "amount": 18_900, "reason": "arrived broken" });
        begin(&world, "refund", "refund-1017", asked).await?;
        let look = async || Ok(world.client.list_approvals(None).await?.items.pop());
        let approval = until_some("an approval", look).await?.approval;
        let token = add_token_of(world.engine.cell(), "main", "ada", &[]).await?;
        let operator = Client::new(world.client.base(), &token)?;
        Ok(Self {
            operator,
            _bank: bank,
            repeated,
            doubted,
            doubt: doubt.id,
            approval,
            world,
        })
    }

    /// The address that signs the operator in.
    pub(super) async fn link(&self) -> Result<String> {
        let code = self.operator.make_sign_in_code().await?;
        Ok(format!("http://{}{}", self.world.address, code.path))
    }
}

async fn connect(world: &World, bank: &Peer) -> Result<()> {
    let connection = json!({
        "to": { "http": { "base_url": bank.url("") } },
        "idempotency_keys": { "window": "24h" },
        "find_url": "https://dashboard.bank.example/search?q={key}",
    });
    let put = PutConnection {
        connection: serde_json::from_value(connection)?,
        replace: false,
    };
    world
        .client
        .put_connection(&"bank".parse()?, &put, None)
        .await?;
    Ok(())
}

fn order(number: u32, amount: u32, express: bool) -> Value {
    json!({
        "id": format!("order-{number}"), "amount": amount, "express": express,
        "lines": [{ "sku": "mug-blue" }, { "sku": "tea-earl-grey" }],
    })
}

/// Brings an order to the hook, and waits until its run ends or stops.
async fn deliver(world: &World, order: &Value) -> Result<RunId> {
    let headers = [("content-type", "application/json")];
    let body = order.to_string();
    let path = "/hooks/main/order-paid";
    world
        .bare
        .send(Method::POST, path, &headers, body.into())
        .await?;
    let key = order["id"].as_str().context("a key")?;
    until_some("the run of the order to end", async || {
        let filter = semel_api::types::RunFilter {
            key: Some(key.to_owned()),
            ..Default::default()
        };
        let run = world.client.list_runs(&filter).await?.items.pop();
        let ends = [RunStatus::Succeeded, RunStatus::InDoubt];
        Ok(run
            .filter(|run| ends.contains(&run.state))
            .map(|run| run.id))
    })
    .await
}

async fn start(world: &World, flow: &str, key: &str, input: Value) -> Result<()> {
    let patience = Some(patience_span());
    let ask = ask(key, input);
    world
        .client
        .start_run(&flow.parse()?, &ask, patience)
        .await?;
    Ok(())
}

async fn begin(world: &World, flow: &str, key: &str, input: Value) -> Result<()> {
    let ask = ask(key, input);
    world.client.start_run(&flow.parse()?, &ask, None).await?;
    Ok(())
}

fn ask(key: &str, input: Value) -> StartRun {
    StartRun {
        key: Some(key.to_owned()),
        input,
        ..StartRun::default()
    }
}
