//! Who may give which group a role.

use anyhow::{Context, Result};
use semel_api::types::{ChangePerson, MapGroup, UnmapGroup};
use semel_api::{Client, Code};
use semel_model::{Right, Rights, Role};

use crate::world::{World, add_token_with, refused};

fn map(group: &str, role: Role) -> MapGroup {
    MapGroup {
        group: group.to_owned(),
        role,
        rights: semel_model::Rights::default(),
    }
}

#[tokio::test]
async fn nobody_gives_a_group_rights_that_they_do_not_have() -> Result<()> {
    let world = World::start().await?;
    let rights: Rights = [Right::Admin, Right::Read, Right::Payload]
        .into_iter()
        .collect();
    let token = add_token_with(world.engine.cell(), "lead", rights).await?;
    let lead = Client::new(world.client.base(), &token)?;

    let given = lead.map_group(&map("staff", Role::Viewer)).await?;
    let beyond = lead.map_group(&map("staff", Role::Operator)).await;

    assert_eq!(given.role, Role::Viewer);
    assert_eq!(refused(beyond)?, Code::RightMissing);
    let listed = world.client.list_group_roles().await?.items;
    let listed: Vec<(&str, Role)> = listed
        .iter()
        .map(|it| (it.group.as_str(), it.role))
        .collect();
    assert_eq!(listed, [("staff", Role::Viewer)]);
    Ok(())
}

#[tokio::test]
async fn a_group_has_one_role_per_namespace_and_each_change_is_recorded_once() -> Result<()> {
    let world = World::start().await?;
    let client = &world.client;
    for role in [Role::Viewer, Role::Viewer, Role::Editor] {
        client.map_group(&map("/company/dev team", role)).await?;
    }

    let group = "/company/dev team".to_owned();
    let foreign = world.stranger().await?.list_group_roles().await?.items;
    let unmapped = client
        .unmap_group(&UnmapGroup {
            group: group.clone(),
        })
        .await?;
    let again = client.unmap_group(&UnmapGroup { group }).await;

    assert_eq!((foreign.len(), unmapped.role), (0, Role::Editor));
    assert_eq!(refused(again)?, Code::GroupNotMapped);
    let acts = client.list_audit(&Default::default()).await?.items;
    let acts = acts.iter().filter(|act| act.action.starts_with("member."));
    let acts: Vec<String> = acts
        .map(|act| format!("{} {}", act.action, act.subject))
        .collect();
    assert_eq!(
        acts,
        [
            "member.unmap /company/dev team as editor",
            "member.map /company/dev team as editor",
            "member.map /company/dev team as viewer",
        ]
    );
    for wrong in ["", " x", "a\u{7}b"] {
        let wrong = client.map_group(&map(wrong, Role::Viewer)).await;
        assert_eq!(refused(wrong)?, Code::BodyInvalid);
    }
    Ok(())
}

#[tokio::test]
async fn a_token_is_no_person() -> Result<()> {
    let world = World::start().await?;
    let tokens = world.client.list_tokens(&Default::default()).await?.items;
    let own = tokens.first().context("a token")?.id;

    let revoked = world
        .client
        .revoke_person(own, &ChangePerson::default())
        .await;

    assert_eq!(refused(revoked)?, Code::PersonNotFound);
    let page = world.bare.get("/console/sign-in/oidc").await?;
    assert_eq!(
        page.status, 404,
        "without a provider there is no way to one"
    );
    assert!(
        !world
            .bare
            .get("/console/sign-in")
            .await?
            .text()
            .contains("Sign in with")
    );
    Ok(())
}
