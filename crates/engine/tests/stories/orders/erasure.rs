//! An erasure beside the dispatch of an event of the same run: each receiver has the event once, and nothing of the run is
//! left that was said in it.

use anyhow::{Context, Result, ensure};
use semel_engine::{Engine, SinglePass};
use semel_model::RunId;
use semel_testkit::{Command, Orders, Scene, until};
use serde_json::json;

use super::{PAST_A_MINUTE, Pair, pass};
use crate::world::World;

const EMITS: &str = "steps:
  - { id: tell, emit: { event: order.paid, data: '${{ input }}' } }
";

const LISTENER: &str = "flow: listener
trigger:
  event: { name: order.paid }
steps:
  - { id: count, kv: { add: heard } }
";

const LEFT: &str = "SELECT count(*) FROM outbox WHERE $1::uuid IS NOT NULL";

const DELIVERIES: &str = "SELECT count(*) FROM webhook_deliveries WHERE $1::uuid IS NOT NULL";

const UNERASED_DELIVERIES: &str = "
    SELECT count(*) FROM webhook_deliveries WHERE NOT is_erased AND $1::uuid IS NOT NULL";

const SAID: &str = "
    SELECT count(*) FROM journal WHERE run_id = $1 AND events::text LIKE '%planted-%'";

struct Erased {
    pair: Pair,
    run: Option<RunId>,
}

async fn erase(engine: Engine, namespace_id: i32, run: RunId) -> Result<()> {
    let erased = engine.erase_run(namespace_id, run, "request 118", "test");
    erased.await?;
    Ok(())
}

impl Scene for Erased {
    async fn begin(&mut self) -> Result<[Command; 2]> {
        let run = self.pair.begin_run().await?;
        self.run = Some(run);
        let [first, second] = self.pair.engines.clone();
        let namespace_id = self.pair.world.namespace_id;
        Ok([
            Box::pin(async move { pass(&first, SinglePass::OutboxDispatch).await }),
            Box::pin(erase(second, namespace_id, run)),
        ])
    }

    async fn judge(&mut self) -> Result<()> {
        let (pair, run) = (&self.pair, self.run.context("a run")?);
        // An event that could not be handed over rests for a while.
        let look = async || -> Result<i64> {
            pass(&pair.engines[0], SinglePass::OutboxDispatch).await?;
            let left = pair.count(LEFT, run).await?;
            if left > 0 {
                pair.world.move_clock(PAST_A_MINUTE).await?;
            }
            Ok(left)
        };
        until("the event to be through", look, |left| *left == 0).await?;
        pair.until_ended(run).await?;
        let heard = pair.entry("heard").await?;
        ensure!(
            heard == json!(pair.runs),
            "{} events were heard {heard} times",
            pair.runs
        );
        let delivered = pair.count(DELIVERIES, run).await?;
        ensure!(
            delivered == pair.runs,
            "{} events became {delivered} deliveries",
            pair.runs
        );
        let unerased = pair.count(UNERASED_DELIVERIES, run).await?;
        ensure!(unerased == 0, "{unerased} deliveries are not erased");
        let said = pair.count(SAID, run).await?;
        ensure!(said == 0, "what was said is left in {said} rows");
        Ok(())
    }
}

#[tokio::test]
async fn in_every_order_of_an_erasure_and_a_dispatch_each_receiver_has_the_event_once() -> Result<()>
{
    let world = World::start().await?;
    world.publish_source(LISTENER).await?;
    world.publish(EMITS).await?;
    let (pair, stage) = Pair::of(world).await?;
    let subscribe = "INSERT INTO subscriptions (namespace_id, name, event, connection)
                     VALUES ($1, 'erp', 'order.paid', 'hook')";
    pair.admin
        .execute(subscribe, &[&pair.world.namespace_id])
        .await?;
    let mut erased = Erased { pair, run: None };
    let orders = Orders {
        pair: "dispatch and erasure",
        red: &[],
        least: 15,
    };

    stage.play(orders, &mut erased).await?;
    Ok(())
}
