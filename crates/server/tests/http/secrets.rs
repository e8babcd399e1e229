//! Secrets, over the API: they go in and do not come out.

use anyhow::Result;
use hyper::Method;
use semel_api::Code;
use semel_api::types::SetSecret;
use semel_model::{Label, SecretText, Span};
use sha2::{Digest as _, Sha256};

use crate::world::{World, refused};
use crate::{authentic, signing};

const VALUE: &str = "hush-hush-4711";

fn set(value: &str) -> SetSecret {
    SetSecret {
        value: SecretText::new(value.to_owned()),
        overlap: None,
        hosts: None,
    }
}

#[tokio::test]
async fn the_same_value_twice_is_one_version_and_another_the_next() -> Result<()> {
    let world = World::start().await?;
    let name: Label = "stripe_key".parse()?;

    let first = world
        .client
        .set_secret(&name, &set(VALUE), None)
        .await?
        .body;
    let again = world
        .client
        .set_secret(&name, &set(VALUE), None)
        .await?
        .body;
    let other = world
        .client
        .set_secret(&name, &set("another-4712"), None)
        .await?;
    let listed = world.client.list_secrets().await?.items;

    assert_eq!((first.version, first.changed), (1, true));
    assert_eq!((again.version, again.changed), (1, false));
    assert_eq!((other.body.version, other.body.changed), (2, true));
    assert_eq!(listed.len(), 1);
    assert!(listed[0].former_until.is_some(), "the former verifies on");
    Ok(())
}

#[tokio::test]
async fn a_former_secret_is_cut_off_by_the_same_value_without_an_overlap() -> Result<()> {
    let world = World::start().await?;
    world
        .publish_signed("hook", "stripe", authentic::SECRETS[0])
        .await?;
    let (name, now): (Label, _) = ("hook".parse()?, world.now().await?);
    let cut = |overlap| SetSecret {
        overlap,
        ..set(authentic::SECRETS[1])
    };
    let former = |id| signing::sign("stripe", authentic::SECRETS[0], "/hooks/main/hook", id, now);

    let rotated = world.client.set_secret(&name, &cut(None), None).await?.body;
    let during = world.send(&former(1)).await?;
    let same = world.client.set_secret(&name, &cut(None), None).await?.body;
    let at_once = cut(Some(Span::from_secs(0)));
    let retired = world.client.set_secret(&name, &at_once, None).await?.body;
    let after = world.send(&former(2)).await?;
    let again = world.client.set_secret(&name, &at_once, None).await?.body;

    assert_eq!((during.status.as_u16(), after.status.as_u16()), (202, 401));
    assert!(rotated.former_until.is_some() && same.former_until.is_some());
    assert!(!same.changed && !same.retired, "nothing was asked for");
    assert!(retired.changed && retired.retired, "{retired:?}");
    assert_eq!((retired.version, retired.former_until), (2, None));
    assert!(!again.changed, "{again:?}");
    Ok(())
}

#[tokio::test]
async fn a_value_is_in_no_answer_and_not_in_the_database() -> Result<()> {
    let world = World::start().await?;
    let bearer = format!("Bearer {}", world.token);
    let headers = [
        ("authorization", bearer.as_str()),
        ("idempotency-key", "once"),
    ];
    let good = format!("{{\"value\":\"{VALUE}\"}}");
    let bodies = [
        good.clone(),
        good.replace("value", "valeu"),
        format!("\"{VALUE}\""),
        format!("{{\"value\":\"{VALUE}\",\"overlap\":\"{VALUE}\"}}"),
        VALUE.to_owned(),
    ];

    let mut said = String::new();
    for body in &bodies {
        let path = "/v1/secrets/stripe_key";
        let sent = world
            .bare
            .send(Method::PUT, path, &headers, body.clone().into());
        said.push_str(&sent.await?.text());
    }
    let database = world.database.connect().await?;
    let rows = database
        .query(
            "SELECT encode(fingerprint::text::bytea, 'escape'), answer::text FROM commands",
            &[],
        )
        .await?;

    assert!(said.contains("\"version\":1"), "{said}");
    assert!(!said.contains("hush"), "{said}");
    assert_eq!(rows.len(), 1);
    let kept: String = rows[0].get(0);
    let plain = [
        Sha256::digest(VALUE),
        Sha256::digest(&good),
        Sha256::digest(format!("[\"stripe_key\",{good}]")),
    ];
    for digest in plain {
        let digest = hex::encode(&digest[..16]);
        assert!(!kept.replace('-', "").contains(&digest), "no plain digest");
    }
    Ok(())
}

#[tokio::test]
async fn a_repeated_command_gets_the_first_answer_and_another_value_is_another_command()
-> Result<()> {
    let world = World::start().await?;
    let name: Label = "stripe_key".parse()?;

    let first = world
        .client
        .set_secret(&name, &set(VALUE), Some("k"))
        .await?;
    let again = world
        .client
        .set_secret(&name, &set(VALUE), Some("k"))
        .await?;
    let other = world
        .client
        .set_secret(&name, &set("another-4712"), Some("k"))
        .await;

    assert!(!first.replayed && again.replayed);
    assert_eq!(first.body, again.body);
    assert_eq!(refused(other)?, Code::CommandMismatch);
    Ok(())
}

#[tokio::test]
async fn secrets_are_deleted_and_rotated() -> Result<()> {
    let world = World::start().await?;
    let name: Label = "stripe_key".parse()?;
    world.client.set_secret(&name, &set(VALUE), None).await?;

    let rotated = world.client.rotate_secrets(None).await?.body;
    let same = world
        .client
        .set_secret(&name, &set(VALUE), None)
        .await?
        .body;
    let deleted = world.client.delete_secret(&name, None).await?.body;
    let again = world.client.delete_secret(&name, None).await;

    assert_eq!(rotated.secrets, 1);
    assert!(!same.changed, "a value stays what it is under another key");
    assert_eq!(deleted.name, "stripe_key");
    assert_eq!(refused(again)?, Code::SecretNotFound);
    Ok(())
}

#[tokio::test]
async fn what_is_no_secret_is_refused() -> Result<()> {
    let world = World::start().await?;
    let name: Label = "stripe_key".parse()?;

    let empty = world.client.set_secret(&name, &set(""), None).await;
    let long = world
        .client
        .set_secret(&name, &set(&"x".repeat(20_000)), None)
        .await;
    let overlapping = SetSecret {
        overlap: Some(Span::from_secs(1)),
        ..set(VALUE)
    };
    let fine = world.client.set_secret(&name, &overlapping, None).await;

    assert_eq!(refused(empty)?, Code::SecretInvalid);
    assert_eq!(refused(long)?, Code::SecretInvalid);
    assert!(fine.is_ok());
    Ok(())
}
