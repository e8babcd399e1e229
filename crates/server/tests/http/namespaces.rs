//! Namespaces: each with a first token, and nothing of another's.

use std::time::Duration;

use anyhow::Result;
use semel_api::types::{
    AuditFilter, CreateNamespace, NamespaceFilter, RevokeToken, SetNamespace, StartRun,
};
use semel_api::{Client, Code};
use semel_model::{NamespaceName, Right, Rights, Span};
use semel_store::clock;
use semel_testkit::{until, until_some};

use crate::world::{World, add_token_with, refused};

fn shop(admin: &str) -> Result<CreateNamespace> {
    Ok(CreateNamespace {
        name: "shop".parse()?,
        admin: admin.to_owned(),
        lifetime: None,
    })
}

async fn names(client: &Client) -> Result<Vec<String>> {
    let page = client.list_namespaces(&NamespaceFilter::default()).await?;
    Ok(page.items.into_iter().map(|it| it.name).collect())
}

#[tokio::test]
async fn a_namespace_has_its_first_token_and_nothing_of_another() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "orders",
            "trigger: { api: {} }\nsteps:\n  - { id: a, function: '1' }\n",
        )
        .await?;

    let created = world.client.create_namespace(&shop("ada")?, "k").await?;
    let ada = Client::new(world.client.base(), &created.body.admin.token)?;
    let who = ada.whoami().await?;

    assert_eq!(
        (who.namespace.as_str(), who.token.as_str()),
        ("shop", "ada")
    );
    assert!(
        ada.list_flows().await?.items.is_empty(),
        "an empty namespace"
    );
    let of_instance: Rights = [Right::Instance].into_iter().collect();
    assert_eq!(
        created.body.admin.kept.rights,
        Rights::ALL.without(of_instance)
    );
    let listed = ada.list_namespaces(&NamespaceFilter::default()).await;
    assert_eq!(refused(listed)?, Code::RightMissing);
    assert!(names(&world.client).await?.contains(&"shop".to_owned()));
    let acts = ada.list_audit(&AuditFilter::default()).await?.items;
    assert_eq!(acts[0].action, "token.create");
    Ok(())
}

#[tokio::test]
async fn the_weight_of_a_namespace_is_set_by_who_manages_the_installation() -> Result<()> {
    let world = World::start().await?;
    let created = world.client.create_namespace(&shop("ada")?, "k").await?;
    let ada = Client::new(world.client.base(), &created.body.admin.token)?;
    let (shop, weight) = ("shop".parse()?, |weight| SetNamespace {
        weight: Some(weight),
        ..SetNamespace::default()
    });

    let set = world.client.set_namespace(&shop, &weight(3)).await?;
    let same = world
        .client
        .set_namespace(&shop, &SetNamespace::default())
        .await?;
    let too_small = world.client.set_namespace(&shop, &weight(0)).await;
    let by_ada = ada.set_namespace(&shop, &weight(9)).await;
    let unknown = world
        .client
        .set_namespace(&"stall".parse()?, &weight(2))
        .await;

    assert_eq!(created.body.namespace.weight, 1);
    assert_eq!((set.weight, same.weight), (3, 3));
    assert_eq!(refused(too_small)?, Code::BodyInvalid);
    assert_eq!(refused(by_ada)?, Code::RightMissing);
    assert_eq!(refused(unknown)?, Code::NamespaceNotFound);
    let acts = world
        .client
        .list_audit(&AuditFilter::default())
        .await?
        .items;
    assert_eq!(acts[0].action, "namespace.set");
    Ok(())
}

#[tokio::test]
async fn a_repeat_is_shown_the_same_token_for_a_while_and_another_maker_is_refused() -> Result<()> {
    let world = World::start().await?;
    let first = world.client.create_namespace(&shop("ada")?, "k").await?;

    let again = world.client.create_namespace(&shop("ada")?, "k").await?;
    let other_key = world.client.create_namespace(&shop("ada")?, "l").await;
    let other_words = world.client.create_namespace(&shop("ben")?, "k").await;
    let elsewhere = CreateNamespace {
        name: "stall".parse()?,
        ..shop("ada")?
    };
    let same_key = world.client.create_namespace(&elsewhere, "k").await;

    assert!(again.replayed && !first.replayed);
    assert_eq!(again.body, first.body);
    assert_eq!(refused(other_key)?, Code::NamespaceExists);
    assert_eq!(refused(other_words)?, Code::NamespaceExists);
    assert_eq!(refused(same_key)?, Code::CommandMismatch);
    assert!(!names(&world.client).await?.contains(&"stall".to_owned()));
    let ada = Client::new(world.client.base(), &first.body.admin.token)?;
    let acts = ada.list_audit(&AuditFilter::default()).await?.items;
    let shown = acts.iter().filter(|act| act.action == "token.show").count();
    assert_eq!(shown, 1, "that it was shown again is an act");

    clock::move_ahead(world.engine.cell(), Duration::from_secs(601)).await?;
    let late = world.client.create_namespace(&shop("ada")?, "k").await;
    assert_eq!(refused(late)?, Code::TokenShown);
    Ok(())
}

#[tokio::test]
async fn only_holders_of_the_right_create_namespaces_and_only_while_their_token_works() -> Result<()>
{
    let world = World::start().await?;
    let all_but = Rights::ALL.without([Right::Instance].into_iter().collect());
    let token = add_token_with(world.engine.cell(), "admin", all_but).await?;
    let without = Client::new(world.client.base(), &token)?;
    let invalid = CreateNamespace {
        admin: " ".to_owned(),
        ..shop("ada")?
    };

    let denied = without.create_namespace(&shop("ada")?, "k").await;
    let invalid = world.client.create_namespace(&invalid, "k").await;
    let root = world.client.whoami().await?;
    let id = world.client.list_tokens(&Default::default()).await?.items;
    let id = id
        .into_iter()
        .find(|it| it.name == root.token)
        .map(|it| it.id);
    let id = id.ok_or_else(|| anyhow::anyhow!("its own token"))?;
    world
        .client
        .revoke_token(id, &RevokeToken::default(), "r")
        .await?;
    let revoked = world.client.create_namespace(&shop("ada")?, "k").await;

    assert_eq!(refused(denied)?, Code::RightMissing);
    assert_eq!(refused(invalid)?, Code::BodyInvalid);
    assert_eq!(refused(revoked)?, Code::Unauthorized);
    Ok(())
}

#[tokio::test]
async fn a_full_backlog_refuses_new_deliveries_and_answers_repeats() -> Result<()> {
    let world = World::start().await?;
    let steps = "trigger: { api: {} }\nsteps:\n  - { id: a, function: '1' }\n";
    let flow = world.publish("orders", steps).await?;
    let start = async |key: &str| {
        let start = StartRun {
            key: Some(key.to_owned()),
            ..StartRun::default()
        };
        let started = world.client.start_run(&flow, &start, None).await;
        started.map(|started| started.body.run)
    };
    let known = start("known").await?;
    let set = SetNamespace {
        backlog_max: Some(5),
        history: Some(Span::from_secs(86_400)),
        ..SetNamespace::default()
    };
    let namespace: NamespaceName = world.client.whoami().await?.namespace;
    let short = SetNamespace {
        history: Some(Span::from_millis(1)),
        ..SetNamespace::default()
    };
    let too_short = world.client.set_namespace(&namespace, &short).await;
    let changed = world.client.set_namespace(&namespace, &set).await?;
    let under = start("under").await;

    // Runs that are due, and that the server cannot take, because they are locked.
    let client = world.database.connect().await?;
    let fill = "
        INSERT INTO queue (run_id, due_at, epoch, seq, partition_date, namespace_id)
        SELECT gen_random_uuid(), moment() + interval '2 seconds', 77, 1, current_date, n.id
          FROM namespaces n, generate_series(1, 5)
         WHERE n.name = $1";
    client.execute(fill, &[&namespace.as_str()]).await?;
    let lock = "BEGIN; SELECT 1 FROM queue WHERE epoch = 77 FOR UPDATE";
    client.batch_execute(lock).await?;
    let due = "SELECT count(*) FROM queue WHERE epoch = 77 AND due_at <= moment()";
    let look = async || Ok(client.query_one(due, &[]).await?.get::<_, i64>(0));
    until("the runs to be due", look, |due| *due == 5).await?;
    // A count is taken as it is for a second, so a few deliveries may still be taken.
    let mut tries = 0;
    let over = async || {
        tries += 1;
        Ok(start(&format!("over-{tries}")).await.err())
    };
    let over = until_some("a delivery to be refused", over).await?;
    let again = start("known").await?;
    client
        .batch_execute("DELETE FROM queue WHERE epoch = 77; COMMIT")
        .await?;
    let last = format!("over-{tries}");
    let taken = async || Ok(start(&last).await.ok());
    until_some("the delivery that was refused to be taken", taken).await?;

    assert_eq!(refused(too_short)?, Code::BodyInvalid);
    assert_eq!(changed.backlog_max, Some(5));
    assert_eq!(changed.history, Some(Span::from_secs(86_400)));
    assert!(under.is_ok());
    assert_eq!(refused::<()>(Err(over))?, Code::BacklogFull);
    assert_eq!(again, known, "a repeat is answered");
    Ok(())
}
