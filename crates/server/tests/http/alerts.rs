//! Alerts over the API: set, shown, tested, unset; and what `/readyz` says of them.

use anyhow::Result;
use semel_api::Code;
use semel_api::types::{PutConnection, SetAlerts, SetSecret};
use semel_model::{Label, SecretText};
use semel_testkit::{Peer, until};
use serde_json::{Value, json};

use crate::world::{World, refused};

fn set(connection: &str, to: &[&str]) -> SetAlerts {
    SetAlerts {
        connection: connection.to_owned(),
        to: to.iter().map(|one| (*one).to_owned()).collect(),
    }
}

async fn connect(world: &World, name: &str, to: Value) -> Result<()> {
    let put = PutConnection {
        connection: serde_json::from_value(json!({ "to": to }))?,
        replace: false,
    };
    world
        .client
        .put_connection(&name.parse()?, &put, None)
        .await?;
    Ok(())
}

async fn failing(world: &World) -> Result<Value> {
    let ready: Value = world.bare.get("/readyz").await?.json()?;
    Ok(ready["alerts"]["failing"].clone())
}

#[tokio::test]
async fn alerts_are_set_tested_and_unset_and_readyz_says_where_they_do_not_arrive() -> Result<()> {
    let (world, peer) = (World::start().await?, Peer::start().await?);
    let (client, name): (_, Label) = (&world.client, "ops".parse()?);
    let secret = SetSecret {
        value: SecretText::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned()),
        overlap: None,
        hosts: None,
    };
    client
        .set_secret(&"signing".parse()?, &secret, None)
        .await?;
    let webhook = json!({"webhook": {"url": peer.url("/plain/ops"), "secret": "signing"}});
    connect(&world, "ops", webhook).await?;

    client.set_alerts(&set("ops", &[]), None).await?;
    let tested = client.test_alerts(Some("t1")).await?.body;
    let again = client.test_alerts(Some("t1")).await?;
    let before = failing(&world).await?;
    client.delete_connection(&name, None).await?;
    let look = async || failing(&world).await;
    until("the alerts to fail", look, |count| *count == json!(1)).await?;
    let ready = world.bare.get("/readyz").await?.status;
    let shown = client.list_alerts().await?.setting;
    let gone = client.test_alerts(Some("t2")).await?.body;
    client.unset_alerts(None).await?;
    let unset = client.list_alerts().await?;

    assert_eq!((tested.outcome.as_str(), again.replayed), ("done", true));
    assert_eq!(
        peer.count("/plain/ops").await?.effects,
        1,
        "one test, one message"
    );
    assert_eq!((before, ready.as_u16()), (json!(0), 200));
    assert!(shown.is_some_and(|setting| !setting.connection_exists));
    assert_eq!(gone.outcome, "failed", "{gone:?}");
    assert_eq!((unset.setting, unset.groups.len()), (None, 0));
    Ok(())
}

#[tokio::test]
async fn alerts_that_could_not_arrive_are_refused() -> Result<()> {
    let world = World::start().await?;
    let client = &world.client;
    connect(
        &world,
        "bank",
        json!({"http": {"base_url": "https://bank.example"}}),
    )
    .await?;
    let mail = json!({"smtp": {"host": "mail.example", "from": "semel@mail.example"}});
    connect(&world, "mail", mail).await?;

    for (connection, to) in [
        ("nowhere", vec![]),
        ("bank", vec![]),
        ("mail", vec![]),
        ("mail", vec!["ops"]),
        ("mail", vec!["a@b.example\r\nBcc: c@d.example"]),
        ("mail", vec!["a@b.example"; 11]),
    ] {
        let answer = client.set_alerts(&set(connection, &to), None).await;
        assert_eq!(refused(answer)?, Code::AlertInvalid, "{connection} {to:?}");
    }
    assert_eq!(refused(client.unset_alerts(None).await)?, Code::AlertNotSet);
    assert_eq!(refused(client.test_alerts(None).await)?, Code::AlertNotSet);
    Ok(())
}
