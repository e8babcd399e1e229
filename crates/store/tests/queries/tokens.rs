//! Tokens: every right can be stored, no other word can, and a maker gives only what it has.

use anyhow::Result;
use semel_model::{Label, Networks, Right, Rights, Span, TokenId};
use semel_store::audit::AuditEntry;
use semel_store::tokens::{self, NewToken, TokenTerms};
use uuid::Uuid;

use crate::world::World;

fn token(number: u128, rights: Rights) -> NewToken<'static> {
    NewToken {
        id: TokenId::from_uuid(Uuid::from_u128(number)),
        name: "t",
        digest: &[7; 32],
        lifetime: Span::from_secs(3_600),
        groups: &[],
        role: None,
        rights,
        networks: Networks::default(),
        queues: &[],
    }
}

/// The terms of a maker whose request cannot be repeated.
fn by(maker: TokenId) -> TokenTerms<'static> {
    TokenTerms {
        maker,
        sealed: None,
        sealed_for: Span::from_secs(600),
        person_lifetime: Span::from_secs(30 * 86_400),
    }
}

#[tokio::test]
async fn every_right_can_be_stored_and_no_other_word() -> Result<()> {
    let world = World::start().await?;
    let home = world.cell.home();
    for (right, number) in Right::ALL.iter().zip(1..) {
        let one = token(number, Rights::from(*right));
        tokens::insert(home, &"main".parse()?, &one).await?;

        let row = tokens::find(home, *one.id.as_uuid()).await?;

        assert_eq!(row.map(|row| row.rights), Some(one.rights), "{right}");
    }
    let client = world.connect().await?;
    for rights in ["'{}'", "'{read,teleport}'", "'{NULL}'", "NULL"] {
        let update = format!("UPDATE tokens SET rights = {rights}");
        assert!(client.batch_execute(&update).await.is_err(), "{rights}");
    }
    Ok(())
}

#[tokio::test]
async fn a_maker_gives_only_what_it_has_while_it_works() -> Result<()> {
    let world = World::start().await?;
    let home = world.cell.home();
    let some: Rights = [Right::Admin, Right::Read].into_iter().collect();
    let (admin, reader) = (token(1, some), token(2, Right::Read.into()));
    tokens::insert(home, &"main".parse()?, &admin).await?;
    tokens::insert(home, &"main".parse()?, &reader).await?;
    let act = AuditEntry::new(1, "token:t", "token.create", "t");
    let make = async |number, rights, maker| {
        tokens::make(home, 1, &token(number, rights), by(maker), &act).await
    };

    assert!(make(3, some, admin.id).await?, "all of its own");
    assert!(!make(3, some, admin.id).await?, "it is there");
    assert!(!make(4, Rights::ALL, admin.id).await?, "more than its own");
    assert!(!make(5, Right::Read.into(), reader.id).await?, "no `admin`");
    let elsewhere = tokens::make(home, 2, &token(6, some), by(admin.id), &act).await?;
    assert!(!elsewhere, "another namespace");
    assert!(tokens::revoke(home, 1, admin.id, &act).await?);
    assert!(!tokens::revoke(home, 1, admin.id, &act).await?, "once");
    assert!(!make(7, some, admin.id).await?, "it was revoked");
    let client = world.connect().await?;
    let acts = "SELECT count(*) FROM audit WHERE actor = 'token:t'";
    let acts: i64 = client.query_one(acts, &[]).await?.get(0);
    assert_eq!(acts, 2, "one that was made, one that was revoked");
    Ok(())
}

#[tokio::test]
async fn a_maker_gives_networks_and_queues_inside_its_own() -> Result<()> {
    let world = World::start().await?;
    let home = world.cell.home();
    let of = |texts: &[&str]| -> Result<Networks> {
        let read: Result<Networks, _> = texts.iter().map(|text| text.parse()).collect();
        Ok(read?)
    };
    let named = |names: &[&str]| -> Result<Vec<Label>> {
        let read: Result<Vec<Label>, _> = names.iter().map(|name| name.parse()).collect();
        Ok(read?)
    };
    let rights: Rights = [Right::Admin, Right::Work].into_iter().collect();
    let own = named(&["images", "thumbs"])?;
    let bound = NewToken {
        networks: of(&["10.0.0.0/8", "2001:db8::/32"])?,
        queues: &own,
        ..token(1, rights)
    };
    let free = token(2, rights);
    for maker in [&bound, &free] {
        tokens::insert(home, &"main".parse()?, maker).await?;
    }
    let act = AuditEntry::new(1, "token:t", "token.create", "t");
    let mut number = 10;
    let mut make = async |maker: &NewToken<'_>, rights: Rights, from: &[&str], on: &[&str]| {
        number += 1;
        let queues = named(on)?;
        let given = NewToken {
            networks: of(from)?,
            queues: &queues,
            ..token(number, rights)
        };
        let made = tokens::make(home, 1, &given, by(maker.id), &act).await?;
        let row = tokens::find(home, *given.id.as_uuid()).await?;
        let stored = row.map(|row| (row.networks, row.queues));
        assert_eq!(stored, made.then(|| (given.networks, queues.clone())));
        anyhow::Ok(made)
    };
    let inside: &[&str] = &["10.1.0.0/16", "2001:db8:1::/48"];
    let work = Rights::from(Right::Work);

    assert!(make(&bound, work, inside, &["images"]).await?);
    assert!(make(&bound, work, &["10.0.0.0/8"], &["thumbs", "images"]).await?);
    assert!(
        make(&bound, Right::Admin.into(), inside, &[]).await?,
        "works on nothing"
    );
    assert!(!make(&bound, work, &[], &["images"]).await?, "anywhere");
    assert!(!make(&bound, work, &["10.1.0.0/16", "11.0.0.0/8"], &["images"]).await?);
    assert!(
        !make(&bound, work, &["10.0.0.0/7"], &["images"]).await?,
        "wider"
    );
    assert!(!make(&bound, work, inside, &[]).await?, "every queue");
    assert!(!make(&bound, work, inside, &["images", "mail"]).await?);
    assert!(make(&free, work, &[], &[]).await?);
    assert!(make(&free, work, &["192.0.2.0/24"], &["mail"]).await?);

    let client = world.connect().await?;
    for change in [
        "networks = '{10.1.2.3/8}'",
        "networks = '{NULL}'",
        "networks = NULL",
        "queues = '{NULL}'",
        "queues = '{images}', rights = '{read}'",
    ] {
        let update = format!("UPDATE tokens SET {change}");
        assert!(client.batch_execute(&update).await.is_err(), "{change}");
    }
    Ok(())
}
