//! Rehearsals over the API, and the promotion that they allow.

use anyhow::{Result, ensure};
use semel_api::types::{AskRehearsal, Promote, PushFlow, PutConnection, Rehearsal};
use semel_api::{Client, Code};
use semel_model::{FlowName, Right, Rights};
use semel_server::ServerOptions;
use semel_testkit::until;
use serde_json::json;

use crate::world::{World, add_token_with, refused};

pub(crate) const FLOW: &str = "
flow: charge
trigger:
  webhook: { auth: none, key: input.id }
keep: 30d
steps:
  - id: note
    http: { connection: bank, post: /notes, json: { order: '${{ input.id }}' } }
    guard: key
    window: 24h
examples:
  - name: one
    input: { id: a1 }
";

/// The id of a rehearsal, by its number.
fn id(number: u8) -> String {
    format!("00000000-0000-4000-8000-0000000000{number:02}")
}

/// Has a text rehearsed, and waits for the end.
pub(crate) async fn rehearse(client: &Client, number: u8, source: &str) -> Result<Rehearsal> {
    let ask = AskRehearsal {
        source: source.to_owned(),
        file: "charge.flow.yaml".to_owned(),
        example: None,
        fault: None,
        seed: 0,
    };
    client.ask_rehearsal(&id(number), &ask).await?;
    // Asking twice is asking once.
    client.ask_rehearsal(&id(number), &ask).await?;
    let look = async || Ok(client.get_rehearsal(&id(number)).await?);
    until("the rehearsal to end", look, Rehearsal::is_over).await
}

async fn connect(world: &World, window: serde_json::Value) -> Result<()> {
    let connection = json!({
        "to": { "http": { "base_url": "https://bank.example" } },
        "idempotency_keys": { "window": window }
    });
    let put = PutConnection {
        connection: serde_json::from_value(connection)?,
        replace: true,
    };
    world
        .client
        .put_connection(&"bank".parse()?, &put, None)
        .await?;
    Ok(())
}

async fn promote(world: &World, reason: Option<&str>, key: &str) -> Result<String> {
    let flow: FlowName = "charge".parse()?;
    let promote = Promote {
        release: 1,
        override_reason: reason.map(str::to_owned),
    };
    match world.client.promote_flow(&flow, &promote, key).await {
        Ok(answer) => Ok(answer.body.proof.unwrap_or_default()),
        Err(error) => Ok(error.code().to_owned()),
    }
}

#[tokio::test]
async fn a_release_goes_live_once_its_rehearsal_passed_with_the_connections_as_they_are()
-> Result<()> {
    let options = ServerOptions {
        require_rehearsal: true,
        ..ServerOptions::default()
    };
    let world = World::start_with(options).await?;
    let flow: FlowName = "charge".parse()?;
    connect(&world, json!("24h")).await?;
    let source = FLOW.to_owned();
    world.client.push_flow(&flow, &PushFlow { source }).await?;
    world.client.publish_flow(&flow, "publish").await?;
    assert_eq!(promote(&world, None, "one").await?, "flow-not-rehearsed");

    let rehearsal = rehearse(&world.client, 1, FLOW).await?;
    assert_eq!(rehearsal.state, "passed", "{rehearsal:?}");
    let shown = world.client.get_flow(&flow).await?;
    assert_eq!(shown.releases[0].proof.as_deref(), Some("proven"));
    assert_eq!(shown.releases[0].digest, rehearsal.digest);

    connect(&world, json!(null)).await?;
    let shown = world.client.get_flow(&flow).await?;
    let changed = Some("not proven: connection changed");
    assert_eq!(shown.releases[0].proof.as_deref(), changed);
    assert_eq!(promote(&world, None, "two").await?, "flow-not-rehearsed");

    connect(&world, json!("24h")).await?;
    assert_eq!(promote(&world, None, "three").await?, "proven");

    // A release that was live before is never refused.
    connect(&world, json!(null)).await?;
    let again = promote(&world, None, "four").await?;
    ensure!(again.starts_with("not proven: "), "{again}");
    Ok(())
}

#[tokio::test]
async fn an_author_s_many_rehearsals_keep_no_other_namespace_from_its_own() -> Result<()> {
    const SMALL: &str = "
flow: small
trigger:
  webhook: { auth: none, key: input.id }
keep: 30d
steps:
  - id: note
    kv: { add: seen }
examples:
  - name: one
    input: { id: a1 }
";
    let world = World::start().await?;
    let noisy = world.stranger().await?;
    let ask = AskRehearsal {
        source: SMALL.to_owned(),
        file: "small.flow.yaml".to_owned(),
        example: None,
        fault: None,
        seed: 0,
    };

    for number in 20..25 {
        noisy.ask_rehearsal(&id(number), &ask).await?;
    }
    let further = noisy.ask_rehearsal(&id(25), &ask).await;
    let own = rehearse(&world.client, 1, SMALL).await?;
    let last = noisy.get_rehearsal(&id(24)).await?;

    assert_eq!(refused(further)?, Code::TooManyRequests);
    assert_eq!(own.state, "passed", "{own:?}");
    assert!(!last.is_over(), "it was asked for before, and waits");
    Ok(())
}

#[tokio::test]
async fn an_override_needs_its_right_and_a_reason() -> Result<()> {
    let options = ServerOptions {
        require_rehearsal: true,
        ..ServerOptions::default()
    };
    let world = World::start_with(options).await?;
    let flow: FlowName = "charge".parse()?;
    connect(&world, json!(null)).await?;
    // A repeat of this request is a second note.
    let source = FLOW.replace("guard: key\n    window: 24h", "guard: natural");
    let push = PushFlow {
        source: source.clone(),
    };
    world.client.push_flow(&flow, &push).await?;
    world.client.publish_flow(&flow, "publish").await?;
    let rehearsal = rehearse(&world.client, 2, &source).await?;
    assert_eq!(rehearsal.state, "violated");
    assert_eq!(promote(&world, None, "one").await?, "flow-not-rehearsed");

    let rights: Rights = [Right::Promote].into_iter().collect();
    let token = add_token_with(world.engine.cell(), "promoter", rights).await?;
    let promoter = Client::new(world.client.base(), &token)?;
    let asked = Promote {
        release: 1,
        override_reason: Some("the bank is down".to_owned()),
    };
    let denied = promoter.promote_flow(&flow, &asked, "denied").await;
    ensure!(denied.is_err_and(|error| error.code() == "right-missing"));
    assert_eq!(promote(&world, Some(" "), "empty").await?, "reason-invalid");
    let failed = "not proven: its rehearsal failed";
    assert_eq!(
        promote(&world, Some("the bank is down"), "two").await?,
        failed
    );
    Ok(())
}
