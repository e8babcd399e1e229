//! Secrets that are bound to hosts: a connection sends them nowhere else.

use anyhow::Result;
use semel_api::types::{Change, PutConnection, SetSecret};
use semel_api::{Client, Code};
use semel_model::host::HostPattern;
use semel_model::{Label, Right, Rights, SecretText};
use semel_testkit::Peer;
use serde_json::json;

use crate::world::{World, add_token_with, refused};

fn set(value: &str, hosts: Option<&[&str]>) -> Result<SetSecret> {
    let hosts = hosts.map(|hosts| hosts.iter().map(|host| host.parse()).collect());
    let hosts: Option<Result<Vec<HostPattern>, _>> = hosts;
    Ok(SetSecret {
        value: SecretText::new(value.to_owned()),
        overlap: None,
        hosts: hosts.transpose()?,
    })
}

/// A connection with the secret `key` to this address, in place of another.
fn to(address: &str, concurrency: u32) -> Result<PutConnection> {
    let connection = json!({
        "to": {"http": {"base_url": address, "auth": {"bearer": {"secret": "key"}}}},
        "limits": {"concurrency": concurrency},
    });
    Ok(PutConnection {
        connection: serde_json::from_value(connection)?,
        replace: true,
    })
}

#[tokio::test]
async fn a_connection_that_leads_elsewhere_is_refused() -> Result<()> {
    let world = World::start().await?;
    let (name, key): (Label, Label) = ("bank".parse()?, "key".parse()?);
    let hosts = ["api.bank.example", "*.test.bank.example"];
    let bound = set("hush-hush", Some(&hosts))?;
    world.client.set_secret(&key, &bound, None).await?;
    let oauth = json!({"to": {"http": {"base_url": "https://api.bank.example", "auth": {"oauth2": {
        "token_url": "https://evil.example/token", "client_id": "c", "secret": "key"}}}}});
    let oauth = PutConnection {
        connection: serde_json::from_value(oauth)?,
        replace: true,
    };

    let put = async |put: &PutConnection| world.client.put_connection(&name, put, None).await;
    let elsewhere = put(&to("https://evil.example", 1)?).await;
    let like_it = put(&to("https://api.bank.example.evil.example", 1)?).await;
    let above = put(&to("https://test.bank.example", 1)?).await;
    let tokens_elsewhere = put(&oauth).await;
    let there = put(&to("https://API.bank.example:8443/v1", 1)?).await?;
    let below = put(&to("https://eu.test.bank.example", 1)?).await?;
    let listed = world.client.list_secrets().await?.items;

    for refusal in [elsewhere, like_it, above, tokens_elsewhere] {
        assert_eq!(refused(refusal)?, Code::SecretBoundElsewhere);
    }
    assert_eq!(there.body.change, Change::Created);
    assert_eq!(below.body.change, Change::Replaced);
    assert_eq!(listed[0].hosts, hosts);
    Ok(())
}

#[tokio::test]
async fn an_unbound_secret_goes_where_only_those_send_it_who_may_set_it() -> Result<()> {
    let world = World::start().await?;
    let (name, key): (Label, Label) = ("bank".parse()?, "key".parse()?);
    let unbound = set("hush-hush", None)?;
    world.client.set_secret(&key, &unbound, None).await?;
    let rights = Rights::from_iter([Right::Read, Right::Connect]);
    let token = add_token_with(world.engine.cell(), "editor", rights).await?;
    let editor = Client::new(world.client.base(), &token)?;
    let (here, there) = ("https://api.bank.example", "https://evil.example");

    let by_editor = editor.put_connection(&name, &to(here, 1)?, None).await;
    let owner = &world.client;
    owner.put_connection(&name, &to(here, 1)?, None).await?;
    let limits = editor.put_connection(&name, &to(here, 2)?, None).await?;
    let moved = editor.put_connection(&name, &to(there, 2)?, None).await;
    let other: Label = "other".parse()?;
    let another = editor.put_connection(&other, &to(there, 1)?, None).await;
    // The same value again, with hosts: it is bound, and its version stays.
    let bound = set("hush-hush", Some(&["api.bank.example"]))?;
    let bound = owner.set_secret(&key, &bound, None).await?.body;
    let fits = editor.put_connection(&other, &to(here, 1)?, None).await?;
    // A new value keeps the hosts.
    let next = set("other-hush", None)?;
    let next = owner.set_secret(&key, &next, None).await?.body;
    let moved_again = editor.put_connection(&name, &to(there, 2)?, None).await;

    for refusal in [by_editor, moved, another] {
        assert_eq!(refused(refusal)?, Code::RightMissing);
    }
    assert_eq!(limits.body.change, Change::Replaced);
    assert_eq!((bound.version, bound.changed), (1, true));
    assert_eq!(fits.body.change, Change::Created);
    assert_eq!((next.version, next.changed), (2, true));
    assert_eq!(refused(moved_again)?, Code::SecretBoundElsewhere);
    Ok(())
}

#[tokio::test]
async fn how_a_secret_may_be_used_is_not_forgotten_with_its_connection() -> Result<()> {
    let world = World::start().await?;
    let (name, key): (Label, Label) = ("bank".parse()?, "key".parse()?);
    let bound = set("hush-hush", Some(&["api.bank.example"]))?;
    world.client.set_secret(&key, &bound, None).await?;
    let rights = Rights::from_iter([Right::Read, Right::Connect]);
    let token = add_token_with(world.engine.cell(), "editor", rights).await?;
    let editor = Client::new(world.client.base(), &token)?;
    let here = to("https://api.bank.example", 1)?;
    let owner = &world.client;
    owner.put_connection(&name, &here, None).await?;

    editor.delete_connection(&name, None).await?;
    let again = editor.put_connection(&name, &here, None).await;
    let by_owner = owner.put_connection(&name, &here, None).await?;

    assert_eq!(refused(again)?, Code::RightMissing);
    assert_eq!(by_owner.body.change, Change::Created);
    Ok(())
}

#[tokio::test]
async fn a_connection_that_was_stored_before_sends_nothing_elsewhere() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    let (name, key): (Label, Label) = ("bank".parse()?, "key".parse()?);
    let unbound = set("hush-hush", None)?;
    world.client.set_secret(&key, &unbound, None).await?;
    let here = to(&bank.url(""), 1)?;
    world.client.put_connection(&name, &here, None).await?;
    let before = world.client.test_connection(&name).await?;

    let bound = set("hush-hush", Some(&["api.bank.example"]))?;
    world.client.set_secret(&key, &bound, None).await?;
    let after = world.client.test_connection(&name).await?;
    let anywhere = set("hush-hush", Some(&[]))?;
    world.client.set_secret(&key, &anywhere, None).await?;
    let again = world.client.test_connection(&name).await?;

    assert!(before.ok && again.ok, "{before:?} {again:?}");
    assert_eq!(after.code.as_deref(), Some("secret-missing"));
    assert!(after.found.contains("bound to other hosts"), "{after:?}");
    Ok(())
}
