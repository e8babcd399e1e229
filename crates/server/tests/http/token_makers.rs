//! Tokens know their maker: revoking one names what it made, and tokens of a person end with the person.

use std::time::Duration;

use anyhow::{Context, Result};
use semel_api::types::{
    ChangePerson, CreateToken, CreatedToken, MapGroup, RevokeDerivedTokens, RevokeToken, Token,
    TokenFilter,
};
use semel_api::{Client, Code};
use semel_model::{Networks, Right, Rights, Role, Span, TokenId};
use semel_server::auth::token_format;
use semel_store::audit::AuditEntry;
use semel_store::people::{self, NamedPerson, PersonSignIn};
use semel_store::tokens::{self, NewToken, TokenTerms, TokenView};
use semel_store::{clock, namespaces};

use crate::world::{World, refused};

const DAY: u64 = 86_400;

fn wanted(name: &str, rights: &[Right]) -> CreateToken {
    CreateToken {
        name: name.to_owned(),
        role: None,
        rights: rights.to_vec(),
        groups: Vec::new(),
        networks: Networks::default(),
        queues: Vec::new(),
        lifetime: None,
    }
}

fn client(world: &World, token: &str) -> Result<Client> {
    Ok(Client::new(world.client.base(), token)?)
}

async fn create(by: &Client, name: &str, rights: &[Right]) -> Result<CreatedToken> {
    Ok(by.create_token(&wanted(name, rights), name).await?.body)
}

fn names(tokens: &[Token]) -> Vec<&str> {
    let mut names: Vec<&str> = tokens.iter().map(|token| token.name.as_str()).collect();
    names.sort_unstable();
    names
}

/// The person of the tests signs in: an admin, whose tokens work for two days after that.
async fn sign_in(world: &World, number: u8) -> Result<()> {
    let person = NamedPerson {
        issuer: "https://id.example",
        subject: "1",
        name: "Ada",
        groups: &["leads".to_owned()],
        lifetime: Span::from_secs(900),
    };
    let wish = PersonSignIn {
        namespace: "main",
        digest: &[number; 32],
        earlier: None,
        longest: Span::from_secs(900),
        provider_session: None,
        token_lifetime: Span::from_secs(2 * DAY),
        seed: [number; 32],
    };
    people::sign_in(world.engine.cell().home(), &person, &wish, "oidc:Ada (1)").await?;
    Ok(())
}

/// A world in which the person has signed in once.
async fn start_with_person() -> Result<(World, TokenId)> {
    let world = World::start().await?;
    let map = MapGroup {
        group: "leads".to_owned(),
        role: Role::Admin,
        rights: Rights::default(),
    };
    world.client.map_group(&map).await?;
    sign_in(&world, 1).await?;
    let known = world.client.list_people(&Default::default()).await?.items;
    let ada = known.first().context("a person")?.id;
    Ok((world, ada))
}

/// Makes a token for a year on behalf of a token or a person; the text for its holder and its identity.
async fn make(world: &World, maker: TokenId, name: &str) -> Result<(String, TokenId)> {
    let (cell, namespace) = (world.engine.cell().home(), "main".parse()?);
    let namespace = namespaces::find(cell, &namespace).await?.context("main")?;
    let minted = token_format::mint()?;
    let token = NewToken {
        id: TokenId::from_uuid(minted.id),
        name,
        digest: &minted.digest,
        lifetime: Span::from_secs(365 * DAY),
        groups: &[],
        role: None,
        rights: [Right::Admin, Right::Read].into_iter().collect(),
        networks: Networks::default(),
        queues: &[],
    };
    let terms = TokenTerms {
        maker,
        sealed: None,
        sealed_for: Span::from_secs(600),
        person_lifetime: Span::from_secs(2 * DAY),
    };
    let act = AuditEntry::new(namespace.id, "oidc:Ada", "token.create", name);
    let made = tokens::make(cell, namespace.id, &token, terms, &act).await?;
    anyhow::ensure!(made, "{name} is made");
    Ok((minted.text, token.id))
}

async fn look(world: &World, id: TokenId) -> Result<TokenView> {
    let (cell, namespace) = (world.engine.cell().home(), "main".parse()?);
    let namespace = namespaces::find(cell, &namespace).await?.context("main")?;
    let found = tokens::find_view(cell, namespace.id, id).await?;
    found.context("the token")
}

/// How long a token works from its creation, in whole hours.
fn hours(token: &TokenView) -> i64 {
    let millis = token.expires_at.as_millisecond() - token.created_at.as_millisecond();
    (millis + 1_800_000) / 3_600_000
}

#[tokio::test]
async fn revoking_a_token_names_what_it_made_and_takes_it_where_asked() -> Result<()> {
    let world = World::start().await?;
    let thief = create(&world.client, "thief", &[Right::Admin, Right::Read]).await?;
    let by_thief = client(&world, &thief.token)?;
    let child = create(&by_thief, "child", &[Right::Admin, Right::Read]).await?;
    let by_child = client(&world, &child.token)?;
    let grandchild = create(&by_child, "grandchild", &[Right::Read]).await?;
    let bystander = create(&world.client, "bystander", &[Right::Read]).await?;

    let alone = RevokeToken::default();
    let named = world
        .client
        .revoke_token(thief.kept.id, &alone, "alone")
        .await?
        .body;
    let left = by_child.whoami().await?.token;
    let with_made = RevokeToken {
        reason: Some("it was stolen".to_owned()),
        with_made: true,
    };
    let taken = world
        .client
        .revoke_token(thief.kept.id, &with_made, "with made")
        .await?
        .body;

    assert_eq!(child.kept.made_by, Some(thief.kept.id));
    assert_eq!(names(&named.made), ["child", "grandchild"]);
    assert_eq!((left.as_str(), named.made_count), ("child", 2));
    assert!(named.made.iter().all(|token| token.revoked_at.is_none()));
    assert_eq!(names(&taken.made), ["child", "grandchild"]);
    assert!(taken.made.iter().all(|token| token.revoked_at.is_some()));
    for lost in [&child, &grandchild] {
        let lost = client(&world, &lost.token)?;
        assert_eq!(refused(lost.whoami().await)?, Code::Unauthorized);
    }
    client(&world, &bystander.token)?.whoami().await?;
    let acts = world.client.list_audit(&Default::default()).await?.items;
    let revoked: Vec<&str> = acts
        .iter()
        .filter(|act| act.reason.as_deref() == Some("it was stolen"))
        .map(|act| act.action.as_str())
        .collect();
    assert_eq!(revoked, ["token.revoke", "token.revoke"], "one for each");
    Ok(())
}

#[tokio::test]
async fn tokens_that_a_person_made_go_with_the_person() -> Result<()> {
    let (world, ada) = start_with_person().await?;
    let (text, id) = make(&world, ada, "laptop").await?;
    let (other, _) = make(&world, id, "robot").await?;
    let (laptop, robot) = (client(&world, &text)?, client(&world, &other)?);
    laptop.whoami().await?;
    robot.whoami().await?;

    let revoked = world
        .client
        .revoke_person(ada, &ChangePerson::default())
        .await?;

    assert_eq!(names(&revoked.made), ["laptop", "robot"]);
    assert_eq!(revoked.made_count, 2);
    assert_eq!(refused(laptop.whoami().await)?, Code::Unauthorized);
    assert_eq!(refused(robot.whoami().await)?, Code::Unauthorized);
    world
        .client
        .restore_person(ada, &ChangePerson::default())
        .await?;
    assert_eq!(
        refused(laptop.whoami().await)?,
        Code::Unauthorized,
        "for good"
    );
    Ok(())
}

#[tokio::test]
async fn a_token_of_a_person_ends_a_while_after_their_last_sign_in() -> Result<()> {
    let (world, ada) = start_with_person().await?;
    let (_, laptop) = make(&world, ada, "laptop").await?;
    let (_, robot) = make(&world, laptop, "robot").await?;
    let first = look(&world, laptop).await?;

    clock::move_ahead(world.engine.cell(), Duration::from_secs(DAY)).await?;
    sign_in(&world, 2).await?;
    let moved = look(&world, laptop).await?;
    let chained = look(&world, robot).await?;
    clock::move_ahead(world.engine.cell(), Duration::from_secs(2 * DAY + 60)).await?;
    let over = look(&world, laptop).await?;
    sign_in(&world, 3).await?;
    let later = look(&world, laptop).await?;

    assert_eq!(hours(&first), 48, "of the year that was asked for");
    assert_eq!((hours(&moved), hours(&chained)), (72, 72));
    assert!(moved.works && !over.works, "nobody signed in for two days");
    assert!(!later.works, "a token that has ended stays so");
    Ok(())
}

#[tokio::test]
async fn a_sign_in_with_fewer_rights_moves_no_end() -> Result<()> {
    let (world, ada) = start_with_person().await?;
    let (_, laptop) = make(&world, ada, "laptop").await?;
    let viewer = MapGroup {
        group: "leads".to_owned(),
        role: Role::Viewer,
        rights: Rights::default(),
    };
    world.client.map_group(&viewer).await?;

    clock::move_ahead(world.engine.cell(), Duration::from_secs(DAY)).await?;
    sign_in(&world, 2).await?;

    assert_eq!(hours(&look(&world, laptop).await?), 48);
    Ok(())
}

#[tokio::test]
async fn derived_tokens_are_marked_and_revoked_except_the_one_that_asks() -> Result<()> {
    let world = World::start().await?;
    let old = create(&world.client, "old", &[Right::Read]).await?;
    let new = create(&world.client, "new", &[Right::Read]).await?;
    // As an earlier version stored them.
    let database = world.database.connect().await?;
    let mark = "UPDATE tokens SET derived = DEFAULT WHERE name IN ('old', 'test')";
    database.batch_execute(mark).await?;

    let listed = world.client.list_tokens(&TokenFilter::default()).await?;
    let reason = RevokeDerivedTokens {
        reason: Some("the key leaked".to_owned()),
    };
    let revoked = world.client.revoke_derived_tokens(&reason).await?;

    let marked: Vec<Token> = listed.items.into_iter().filter(|it| it.derived).collect();
    assert_eq!(names(&marked), ["old", "test"]);
    assert_eq!(names(&revoked.tokens), ["old"]);
    assert_eq!((revoked.count, revoked.own_left), (1, true));
    let old = client(&world, &old.token)?;
    assert_eq!(refused(old.whoami().await)?, Code::Unauthorized);
    client(&world, &new.token)?.whoami().await?;
    Ok(())
}
