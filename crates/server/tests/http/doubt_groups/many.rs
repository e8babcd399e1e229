//! Doubts that are found though many others stand before them.

use anyhow::{Context as _, Result, ensure};
use semel_api::types::{
    Promote, PushFlow, PutConnection, RunStatus, SettleGroup, StartRun, Verdict,
};
use semel_model::FlowName;
use semel_testkit::Peer;
use semel_testkit::peer::Behaviour;
use serde_json::json;

use super::all_of;
use crate::world::{World, patience_span};

/// Those of another connection take no place among the few hundred that are settled together.
#[tokio::test]
async fn doubts_over_one_connection_or_with_one_note_are_found_behind_600_others() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    let mut flow = None;
    for name in ["old", "new"] {
        let connection = json!({ "to": { "http": { "base_url": bank.url("") } } });
        let put = PutConnection {
            connection: serde_json::from_value(connection)?,
            replace: false,
        };
        world
            .client
            .put_connection(&name.parse()?, &put, None)
            .await?;
        let source = format!(
            "flow: charging\ntrigger: {{ api: {{}} }}\nsteps:\n  - id: charge\n    guard: review\n    \
             http: {{ connection: {name}, post: /plain/charges, json: {{ n: 1 }}, timeout: 1s }}\n"
        );
        let charging: FlowName = "charging".parse()?;
        world
            .client
            .push_flow(&charging, &PushFlow { source })
            .await?;
        let release = world
            .client
            .publish_flow(&charging, name)
            .await?
            .body
            .release;
        let promote = Promote {
            release,
            override_reason: None,
        };
        world.client.promote_flow(&charging, &promote, name).await?;
        let lost = Behaviour::CloseWithoutAnswer;
        bank.next_times("/plain/charges", 1, lost).await?;
        let start = StartRun {
            key: Some(name.to_owned()),
            ..StartRun::default()
        };
        let patience = Some(patience_span());
        let started = world.client.start_run(&charging, &start, patience).await?;
        ensure!(started.body.state == RunStatus::InDoubt, "{started:?}");
        if name == "old" {
            multiply_doubts(&world).await?;
        }
        flow = Some(charging);
    }
    let flow = flow.context("a flow")?;
    let over = |connection: &str| SettleGroup {
        connection: Some(connection.to_owned()),
        ..all_of(&flow, Verdict::Fail)
    };

    let new = world.client.preview_settlement(&over("new")).await?;
    let old = world.client.preview_settlement(&over("old")).await?;

    assert_eq!((new.doubts.len(), new.more), (1, false));
    assert_eq!((old.doubts.len(), old.more), (500, true));
    let client = world.database.connect().await?;
    let notes = "SELECT DISTINCT note FROM effects WHERE note IS NOT NULL";
    let seen: Option<String> = client.query_one(notes, &[]).await?.get(0);
    let saw = |group: SettleGroup| SettleGroup {
        seen: seen.clone(),
        ..group
    };
    let alike = saw(all_of(&flow, Verdict::Fail));
    let alike = world.client.preview_settlement(&alike).await?;
    let both = world.client.preview_settlement(&saw(over("new"))).await?;
    assert_eq!((alike.doubts.len(), alike.more), (2, false));
    assert_eq!((both.doubts.len(), both.more), (1, false));
    Ok(())
}

/// Makes six hundred more of the only doubt, of the same run.
async fn multiply_doubts(world: &World) -> Result<()> {
    let client = world.database.connect().await?;
    let many = "
        WITH made AS (
            INSERT INTO effects (partition_date, id, run_id, namespace_id, step, kind, guard, state, attempt,
                                 intended_at, settled_at)
            SELECT e.partition_date, gen_random_uuid(), e.run_id, e.namespace_id, e.step, e.kind, e.guard,
                   e.state, e.attempt, e.intended_at, e.settled_at
              FROM effects e, generate_series(1, 600)
             WHERE e.state = 'in_doubt'
         RETURNING id)
        INSERT INTO attention (subject_id, kind, partition_date, namespace_id, run_id, flow_id, step, since,
                               accepted_at, is_child)
        SELECT m.id, a.kind, a.partition_date, a.namespace_id, a.run_id, a.flow_id, a.step, a.since,
               a.accepted_at, a.is_child
          FROM attention a, made m
         WHERE a.kind = 'doubt'";
    client.execute(many, &[]).await?;
    Ok(())
}
