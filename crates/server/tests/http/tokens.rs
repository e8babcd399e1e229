//! Tokens that tokens make: what they may do, and that a repeat is no second one.

use std::time::Duration;

use anyhow::{Context, Result};
use semel_api::types::{CreateToken, CreatedToken, RevokeToken, TokenFilter};
use semel_api::{Client, ClientError, Code};
use semel_model::{Networks, Right, Rights, Role, Span};
use semel_store::{clock, retention};
use semel_testkit::{until, until_some};

use crate::world::{World, add_token_with, refused};

fn wanted(rights: &[Right]) -> CreateToken {
    CreateToken {
        name: "ci".to_owned(),
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

/// A client whose token has these rights.
async fn holder(world: &World, name: &str, rights: &[Right]) -> Result<Client> {
    let rights = rights.iter().copied().collect();
    client(
        world,
        &add_token_with(world.engine.cell(), name, rights).await?,
    )
}

async fn create(by: &Client, rights: &[Right], key: &str) -> Result<CreatedToken> {
    Ok(by.create_token(&wanted(rights), key).await?.body)
}

fn detail<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> Result<String> {
    match answer {
        Err(ClientError::Problem(problem)) => Ok(problem.detail),
        other => anyhow::bail!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn a_token_is_created_used_listed_and_revoked() -> Result<()> {
    let world = World::start().await?;

    let created = create(&world.client, &[Right::Read], "k").await?;
    let ci = client(&world, &created.token)?;
    let listed = world.client.list_tokens(&TokenFilter::default()).await?;
    let who = ci.whoami().await?;
    let denied = ci.list_tokens(&TokenFilter::default()).await;
    let revoke = RevokeToken {
        reason: Some("it leaked".to_owned()),
        with_made: false,
    };
    let id = created.kept.id;
    world.client.revoke_token(id, &revoke, "r").await?;
    let again = world
        .client
        .revoke_token(id, &RevokeToken::default(), "s")
        .await?;

    assert_eq!((who.token.as_str(), who.rights), ("ci", Right::Read.into()));
    assert!(
        ci.list_flows().await.is_err(),
        "at once where it was revoked"
    );
    assert_eq!(refused(ci.whoami().await)?, Code::Unauthorized);
    assert_eq!(listed.items[0], created.kept);
    assert_eq!(refused(denied)?, Code::RightMissing);
    assert!(again.body.token.revoked_at.is_some());
    let working = world.client.list_tokens(&TokenFilter::default()).await?;
    assert!(working.items.iter().all(|token| token.id != id));
    let all = TokenFilter {
        all: true,
        ..TokenFilter::default()
    };
    let all = world.client.list_tokens(&all).await?;
    assert!(all.items.iter().any(|token| token.id == id));

    let database = world.database.connect().await?;
    let text =
        "SELECT actor, action, subject, reason FROM audit WHERE action ~ '^token' ORDER BY id";
    let rows = database.query(text, &[]).await?;
    let acts: Vec<(String, String, String, Option<String>)> = rows
        .iter()
        .map(|row| (row.get(0), row.get(1), row.get(2), row.get(3)))
        .collect();
    let subject = format!("ci {id}");
    let by = "token:test".to_owned();
    let leaked = Some("it leaked".to_owned());
    assert_eq!(
        acts[acts.len() - 2..],
        [
            (by.clone(), "token.create".to_owned(), subject.clone(), None),
            (by, "token.revoke".to_owned(), subject, leaked),
        ],
        "one record each, however often it was asked for"
    );
    Ok(())
}

#[tokio::test]
async fn a_repeat_makes_no_second_token_and_is_shown_the_first_for_a_while() -> Result<()> {
    let world = World::start().await?;
    let other = holder(&world, "other", &[Right::Admin, Right::Start]).await?;
    let ask = async || {
        let asked = wanted(&[Right::Start]);
        world.client.create_token(&asked, "k").await
    };

    let (first, again) = (ask().await?, ask().await?);
    let differing = world
        .client
        .create_token(&wanted(&[Right::Read]), "k")
        .await;
    let others = create(&other, &[Right::Start], "k").await?;
    let listed = world.client.list_tokens(&TokenFilter::default()).await?;

    assert_eq!((first.replayed, again.replayed), (false, true));
    assert_eq!(first.body, again.body);
    assert_eq!(refused(differing)?, Code::CommandMismatch);
    assert_ne!(others.token, first.body.token, "another maker's is another");
    assert_eq!(
        listed.items.iter().filter(|one| one.name == "ci").count(),
        2
    );
    let secret = first.body.token.rsplit('_').next().context("a secret")?;
    let database = world.database.connect().await?;
    let kept = "
        SELECT (SELECT count(*) FROM commands WHERE answer::text LIKE '%' || $1 || '%')
               + (SELECT count(*) FROM tokens
                   WHERE position(convert_to($1, 'UTF8') IN sealed) > 0
                      OR position(decode($1, 'hex') IN sealed) > 0)";
    let kept: i64 = database.query_one(kept, &[&secret]).await?.get(0);
    assert_eq!(kept, 0, "the token is stored nowhere in the clear");
    let shown = "SELECT count(*) FROM audit WHERE action = 'token.show' AND actor = 'token:test'";
    let shown: i64 = database.query_one(shown, &[]).await?.get(0);
    assert_eq!(shown, 1, "that it was shown again is an act");

    let id = first.body.kept.id;
    world
        .client
        .revoke_token(id, &RevokeToken::default(), "r")
        .await?;
    assert!(detail(ask().await)?.contains("was revoked"));
    Ok(())
}

#[tokio::test]
async fn a_repeat_that_comes_late_is_shown_no_token() -> Result<()> {
    let world = World::start().await?;
    let first = create(&world.client, &[Right::Start], "k").await?;

    clock::move_ahead(world.engine.cell(), Duration::from_secs(601)).await?;
    let late = world
        .client
        .create_token(&wanted(&[Right::Start]), "k")
        .await;
    let another = create(&world.client, &[Right::Start], "l").await?;

    let Err(ClientError::Problem(problem)) = late else {
        anyhow::bail!("it is shown: {late:?}");
    };
    assert_eq!(problem.code(), Some(Code::TokenShown));
    let id = first.kept.id.to_string();
    assert!(problem.detail.contains(&id), "{}", problem.detail);
    assert_ne!(another.kept.id, first.kept.id);
    let database = world.database.connect().await?;
    let text = "SELECT count(*) FROM audit WHERE action = 'token.show'";
    let shown: i64 = database.query_one(text, &[]).await?.get(0);
    assert_eq!(shown, 0);
    retention::sweep(world.engine.cell().every()).await?;
    let text = "SELECT count(*) FROM tokens WHERE sealed_until < moment()";
    let left: i64 = database.query_one(text, &[]).await?.get(0);
    assert_eq!(left, 0, "nothing is kept of it");
    Ok(())
}

#[tokio::test]
async fn a_token_cannot_give_what_it_does_not_have() -> Result<()> {
    let world = World::start().await?;
    let admin = holder(&world, "desk", &[Right::Admin, Right::Read]).await?;

    let beyond = admin
        .create_token(&wanted(&[Right::Read, Right::Settle]), "a")
        .await;
    let none = admin.create_token(&wanted(&[]), "b").await;
    let within = create(&admin, &[Right::Read, Right::Admin], "c").await?;
    let grown = client(&world, &within.token)?;
    let grown = grown.create_token(&wanted(&[Right::Secret]), "d").await;

    assert_eq!(
        detail(beyond)?,
        "the token `desk` cannot give what it does not have: settle"
    );
    assert_eq!(refused(grown)?, Code::RightMissing);
    let said = detail(none)?;
    assert!(said.contains("read, payload, start"), "{said}");
    Ok(())
}

#[tokio::test]
async fn a_maker_that_was_revoked_makes_nothing_although_its_server_still_knows_it() -> Result<()> {
    let world = World::start().await?;
    let admin = holder(&world, "leaver", &[Right::Admin, Right::Read]).await?;
    admin.whoami().await?;
    let database = world.database.connect().await?;
    let revoke = "UPDATE tokens SET revoked_at = moment() WHERE name = 'leaver'";
    database.batch_execute(revoke).await?;

    let made = admin.create_token(&wanted(&[Right::Read]), "k").await;

    assert_eq!(refused(made)?, Code::Unauthorized);
    let count = "SELECT count(*) FROM tokens WHERE name = 'ci'";
    let count: i64 = database.query_one(count, &[]).await?.get(0);
    assert_eq!(count, 0);
    Ok(())
}

#[tokio::test]
async fn hostile_tokens_are_refused_and_other_namespaces_not_found() -> Result<()> {
    let world = World::start().await?;
    let stranger = world.stranger().await?;
    let created = create(&world.client, &[Right::Read], "k").await?;
    let refuse = async |change: fn(&mut CreateToken)| {
        let mut asked = wanted(&[Right::Read]);
        change(&mut asked);
        refused(world.client.create_token(&asked, "h").await)
    };

    let changes: [fn(&mut CreateToken); 7] = [
        |asked| asked.name.clear(),
        |asked| asked.name = "a\nb".to_owned(),
        |asked| asked.name = "a\0b".to_owned(),
        |asked| asked.name = "x".repeat(10_000),
        |asked| asked.groups = vec!["g".to_owned(); 1_000],
        |asked| asked.lifetime = Some(Span::from_secs(366 * 86_400)),
        |asked| asked.lifetime = Some(Span::from_secs(0)),
    ];
    for change in changes {
        assert_eq!(refuse(change).await?, Code::BodyInvalid);
    }
    let id = created.kept.id;
    let revoked = stranger
        .revoke_token(id, &RevokeToken::default(), "r")
        .await;
    assert_eq!(refused(revoked)?, Code::TokenNotFound);
    let seen = stranger.list_tokens(&TokenFilter::default()).await?;
    assert!(seen.items.iter().all(|token| token.id != id));
    assert_eq!(client(&world, &created.token)?.whoami().await?.token, "ci");
    Ok(())
}

#[tokio::test]
async fn the_list_of_tokens_is_paged() -> Result<()> {
    let world = World::start().await?;
    for key in ["a", "b", "c"] {
        create(&world.client, &[Right::Read], key).await?;
    }
    let mut filter = TokenFilter {
        limit: Some(2),
        ..TokenFilter::default()
    };

    let first = world.client.list_tokens(&filter).await?;
    filter.cursor = first.next.clone();
    let second = world.client.list_tokens(&filter).await?;

    let names = |page: &[semel_api::types::Token]| -> Vec<String> {
        page.iter().map(|token| token.name.clone()).collect()
    };
    assert_eq!(names(&first.items), ["ci", "ci"]);
    assert_eq!(names(&second.items), ["ci", "test"]);
    assert_eq!(second.items[1].rights, Rights::ALL);
    Ok(())
}

#[tokio::test]
async fn a_token_revoked_elsewhere_stops_working_here_soon() -> Result<()> {
    let world = World::start().await?;
    let created = create(&world.client, &[Right::Read], "k").await?;
    let ci = client(&world, &created.token)?;
    ci.list_flows().await?;
    let database = world.database.connect().await?;

    let revoke = "UPDATE tokens SET revoked_at = moment() WHERE name = 'ci'";
    database.batch_execute(revoke).await?;

    let look = async || Ok(ci.list_flows().await.is_ok());
    until("the revoked token to stop working", look, |works| !works).await?;
    Ok(())
}

#[tokio::test]
async fn a_role_gives_its_rights_and_those_that_go_with_it_one_by_one() -> Result<()> {
    let world = World::start().await?;
    let asked = |role: Role, more: &[Right]| CreateToken {
        role: Some(role),
        ..wanted(more)
    };

    let operator = asked(Role::Operator, &[Right::Settle]);
    let operator = world.client.create_token(&operator, "a").await?.body;
    let odd = asked(Role::Viewer, &[Right::Promote]);
    let odd = world.client.create_token(&odd, "b").await;
    let editor = asked(Role::Editor, &[]);
    let editor = world.client.create_token(&editor, "c").await?.body;
    let viewer = holder(&world, "weak", &[Right::Read, Right::Admin]).await?;
    let beyond = viewer.create_token(&asked(Role::Admin, &[]), "d").await;
    let who = client(&world, &operator.token)?.whoami().await?;

    assert_eq!(operator.kept.role, Some(Role::Operator));
    assert_eq!(
        who.rights.words(),
        ["read", "payload", "start", "operate", "settle", "once"]
    );
    assert_eq!(editor.kept.rights.words(), ["read", "payload", "write"]);
    assert!(detail(odd)?.contains("`viewer` does not go with promote"));
    assert_eq!(refused(beyond)?, Code::RightMissing);
    Ok(())
}

#[tokio::test]
async fn the_last_use_of_a_token_is_known_to_the_minute() -> Result<()> {
    let world = World::start().await?;
    let created = create(&world.client, &[Right::Read], "k").await?;
    let id = created.kept.id;
    let last_use = async || {
        let listed = world.client.list_tokens(&TokenFilter::default()).await?;
        let mut same = listed.items.into_iter().filter(|it| it.id == id);
        Ok::<_, anyhow::Error>(same.next().context("it is listed")?.last_used_at)
    };
    let unused = last_use().await?;

    client(&world, &created.token)?.whoami().await?;
    let first = until_some("the use of the token to be noted", last_use).await?;
    // Another server, which does not remember the token, notes nothing within the minute.
    semel_store::tokens::note_use(world.engine.cell().home(), id).await?;

    assert_eq!(unused, None);
    assert_eq!(last_use().await?, Some(first));
    Ok(())
}
