//! Connections, over the API.

use anyhow::Result;
use semel_api::types::{Change, PushFlow, PutConnection, SetSecret};
use semel_api::{ClientError, Code};
use semel_model::{Label, SecretText};
use serde_json::{Value, json};

use crate::world::{World, refused};

fn put(connection: Value) -> Result<PutConnection> {
    Ok(PutConnection {
        connection: serde_json::from_value(connection)?,
        replace: false,
    })
}

fn books(base_url: &str) -> Result<PutConnection> {
    let auth = json!({"bearer": {"secret": "books_token"}});
    put(json!({"to": {"http": {"base_url": base_url, "auth": auth}}}))
}

#[tokio::test]
async fn the_same_connection_twice_is_one_and_a_change_needs_replace() -> Result<()> {
    let world = World::start().await?;
    let name: Label = "books".parse()?;
    let (one, other) = (books("https://a.example")?, books("https://b.example")?);
    let replacing = PutConnection {
        replace: true,
        ..other.clone()
    };

    let first = world.client.put_connection(&name, &one, None).await?.body;
    let again = world.client.put_connection(&name, &one, None).await?.body;
    let differs = world.client.put_connection(&name, &other, None).await;
    let replaced = world.client.put_connection(&name, &replacing, None).await?;

    assert_eq!((first.change, first.version), (Change::Created, 1));
    assert_eq!(first.missing, ["books_token"]);
    assert_eq!((again.change, again.version), (Change::Unchanged, 1));
    assert_eq!(refused(differs)?, Code::ConnectionDiffers);
    assert_eq!(
        (replaced.body.change, replaced.body.version),
        (Change::Replaced, 2)
    );
    let shown = world.client.get_connection(&name).await?;
    assert_eq!(shown.connection, other.connection);
    Ok(())
}

#[tokio::test]
async fn a_connection_says_which_secrets_it_lacks_until_they_are_set() -> Result<()> {
    let world = World::start().await?;
    let name: Label = "books".parse()?;
    let set = SetSecret {
        value: SecretText::new("tok_1234567890".to_owned()),
        overlap: None,
        hosts: None,
    };

    let put = books("https://a.example")?;
    world.client.put_connection(&name, &put, None).await?;
    let before = world.client.get_connection(&name).await?;
    let secret: Label = "books_token".parse()?;
    world.client.set_secret(&secret, &set, None).await?;
    let after = world.client.get_connection(&name).await?;
    let secrets = world.client.list_secrets().await?.items;

    assert_eq!(before.missing, ["books_token"]);
    assert!(after.missing.is_empty());
    assert_eq!(secrets[0].connections, ["books"]);
    Ok(())
}

#[tokio::test]
async fn an_invalid_connection_is_refused() -> Result<()> {
    let world = World::start().await?;
    let name: Label = "books".parse()?;
    let cases = [
        json!({"to": {"http": {"base_url": "https://user:hush@a.example"}}}),
        json!({"to": {"http": {"base_url": "ftp://a.example"}}}),
        json!({"to": {"http": {"base_url": "https://a.example"}}, "limits": {"concurrency": 0}}),
        json!({"to": {"ssh": {"host": "h", "user": "u", "secret": "s", "host_key": "any"}}}),
    ];

    for case in cases {
        let answer = world
            .client
            .put_connection(&name, &put(case.clone())?, None)
            .await;

        assert_eq!(refused(answer)?, Code::ConnectionInvalid, "{case}");
    }
    let gone = world.client.get_connection(&name).await;
    assert_eq!(refused(gone)?, Code::ConnectionNotFound);
    Ok(())
}

#[tokio::test]
async fn a_removed_connection_is_gone_and_other_namespaces_are_hidden() -> Result<()> {
    let world = World::start().await?;
    let name: Label = "books".parse()?;
    let put = books("https://a.example")?;
    world.client.put_connection(&name, &put, None).await?;
    let stranger = world.stranger().await?;

    let seen = stranger.get_connection(&name).await;
    let taken = stranger.delete_connection(&name, None).await;
    let first = world.client.delete_connection(&name, Some("d")).await?;
    let again = world.client.delete_connection(&name, Some("d")).await?;
    let anew = world.client.delete_connection(&name, None).await;

    assert_eq!(refused(seen)?, Code::ConnectionNotFound);
    assert_eq!(refused(taken)?, Code::ConnectionNotFound);
    assert!(!first.replayed && again.replayed);
    assert_eq!(refused(anew)?, Code::ConnectionNotFound);
    assert!(world.client.list_connections().await?.items.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_destination_is_tested_without_a_request() -> Result<()> {
    let world = World::start().await?;
    let (there, gone, lacking): (Label, Label, Label) =
        ("there".parse()?, "gone".parse()?, "lacking".parse()?);
    let http = |url: String| put(json!({"to": {"http": {"base_url": url}}}));
    let here = http(format!("http://{}", world.address))?;
    world.client.put_connection(&there, &here, None).await?;
    let nobody = http("http://127.0.0.1:1".to_owned())?;
    world.client.put_connection(&gone, &nobody, None).await?;
    let put = books("https://a.example")?;
    world.client.put_connection(&lacking, &put, None).await?;

    let reached = world.client.test_connection(&there).await?;
    let unreached = world.client.test_connection(&gone).await?;
    let unset = world.client.test_connection(&lacking).await?;
    let prepared = world.client.prepare_connection(&there).await?;
    let unknown = world.client.test_connection(&"none".parse()?).await;

    assert!(reached.ok, "{reached:?}");
    assert_eq!(unreached.code.as_deref(), Some("no-connection"));
    assert_eq!(unset.code.as_deref(), Some("secret-missing"));
    assert!(unset.found.contains("semel secret set books_token"));
    assert!(prepared.ok, "{prepared:?}");
    assert_eq!(refused(unknown)?, Code::ConnectionNotFound);
    Ok(())
}

#[tokio::test]
async fn a_flow_with_a_missing_connection_may_be_pushed_and_not_published() -> Result<()> {
    let world = World::start().await?;
    let flow = "orders".parse()?;
    let source = "flow: orders\ntrigger: { api: {} }\nsteps:\n  - id: ask\n    \
                  http: { connection: boks, get: /orders }\n";
    let push = PushFlow {
        source: source.to_owned(),
    };
    let put = books("https://a.example")?;
    world
        .client
        .put_connection(&"books".parse()?, &put, None)
        .await?;

    let pushed = world.client.push_flow(&flow, &push).await;

    // A build that cannot run connections yet says so; the name is judged all the same.
    let found = match pushed {
        Ok(draft) => {
            let published = world.client.publish_flow(&flow, "p").await;
            assert_eq!(refused(published)?, Code::FlowInvalid);
            draft.diagnostics
        }
        Err(ClientError::Problem(problem)) => problem.diagnostics,
        Err(error) => return Err(error.into()),
    };
    let unknown = found.iter().find(|one| one.code == "connection-unknown");
    let unknown = unknown.expect("the connection is judged");
    assert_eq!(unknown.severity, "warning");
    assert!(unknown.help.contains("`books`"), "{}", unknown.help);
    Ok(())
}
