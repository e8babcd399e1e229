//! Tokens: every right can be stored, no other word can, and a maker gives only what it has.

use anyhow::Result;
use semel_model::{Right, Rights, Span, TokenId};
use semel_store::audit::AuditEntry;
use semel_store::tokens::{self, NewToken};
use uuid::Uuid;

use crate::world::World;

fn token(number: u128, rights: Rights) -> NewToken<'static> {
    NewToken {
        id: TokenId::from_uuid(Uuid::from_u128(number)),
        name: "t",
        digest: &[7; 32],
        lifetime: Span::from_secs(60),
        groups: &[],
        role: None,
        rights,
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
        tokens::make(home, 1, &token(number, rights), maker, &act).await
    };

    assert!(make(3, some, admin.id).await?, "all of its own");
    assert!(!make(3, some, admin.id).await?, "it is there");
    assert!(!make(4, Rights::ALL, admin.id).await?, "more than its own");
    assert!(!make(5, Right::Read.into(), reader.id).await?, "no `admin`");
    let elsewhere = tokens::make(home, 2, &token(6, some), admin.id, &act).await?;
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
