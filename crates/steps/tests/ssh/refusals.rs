//! What is refused before anything is sent.

use std::sync::Arc;

use anyhow::Result;
use semel_model::connection::Target;
use semel_steps::{Destination, Egress, Reach, SshExecutor};
use semel_testkit::Sshd;

use crate::ssh::world::{World, done, failed, key};

fn change(to: &mut Destination, change: impl FnOnce(&mut semel_model::connection::SshTarget)) {
    if let Target::Ssh(target) = &mut to.connection.to {
        change(target);
    }
}

#[tokio::test]
async fn another_host_key_is_refused_and_sent_nothing() -> Result<()> {
    let world = World::new().await?;
    let stranger = Sshd::start().await?;
    let mut to = world.destination()?;
    let pinned = stranger.host_key()?;
    change(&mut to, |target| target.host_key = pinned);

    let fault = failed(world.caller.run(&world.append(""), &to, key("a")).await);
    let tested = world.caller.test(&to).await.unwrap_err();

    assert_eq!(
        (fault.code.as_str(), fault.retryable),
        ("host-key-changed", false)
    );
    assert_eq!(tested.code, "host-key-changed");
    assert_eq!(world.effects(), 0);
    Ok(())
}

#[tokio::test]
async fn a_user_who_is_not_let_in_was_sent_nothing() -> Result<()> {
    let world = World::new().await?;
    let stranger = World::new().await?;
    let mut to = world.destination_at(stranger.server.address())?;
    let pinned = stranger.server.host_key()?;
    change(&mut to, |target| target.host_key = pinned);

    let fault = failed(world.caller.run(&stranger.append(""), &to, key("a")).await);

    assert_eq!(
        (fault.code.as_str(), fault.retryable),
        ("sign-in-refused", false)
    );
    assert_eq!(stranger.effects(), 0);
    Ok(())
}

#[tokio::test]
async fn a_variable_that_the_connection_does_not_name_is_refused() -> Result<()> {
    let world = World::new().await?;

    for name in ["LD_PRELOAD", "GREETING; touch pwned", "GREETING=x", ""] {
        let mut command = world.append("");
        command.env = vec![(name.to_owned(), "x".to_owned())];
        let fault = failed(world.perform(&command, key("a")).await?);
        assert_eq!(
            (fault.code.as_str(), fault.retryable),
            ("env-refused", false)
        );
    }
    assert_eq!(world.effects(), 0);
    Ok(())
}

#[tokio::test]
async fn an_address_that_flows_may_not_reach_is_not_reached() -> Result<()> {
    let world = World::new().await?;
    let reach = Reach {
        egress: Arc::new(Egress::default()),
        ..Reach::default()
    };
    let strict = SshExecutor::new(world.gate.clone(), &reach);

    let fault = failed(
        strict
            .run(&world.append(""), &world.destination()?, key("a"))
            .await,
    );

    assert_eq!(
        (fault.code.as_str(), fault.retryable),
        ("address-refused", false)
    );
    assert_eq!(world.effects(), 0);
    Ok(())
}

#[tokio::test]
async fn nothing_is_sent_once_the_lease_is_lost() -> Result<()> {
    let world = World::new().await?;
    world.gate.close();

    let fault = failed(world.perform(&world.append(""), key("a")).await?);

    assert_eq!((fault.code.as_str(), fault.retryable), ("lease-lost", true));
    assert_eq!(world.effects(), 0);
    Ok(())
}

#[tokio::test]
async fn a_lease_that_is_lost_while_a_channel_is_opened_sends_nothing() -> Result<()> {
    let world = World::new().await?;
    // It holds when the connection is made, and no longer when the command would leave.
    world.gate.close_after(1);

    let fault = failed(world.perform(&world.append(""), key("a")).await?);

    assert_eq!((fault.code.as_str(), fault.retryable), ("lease-lost", true));
    assert_eq!(world.effects(), 0);
    Ok(())
}

#[tokio::test]
async fn a_pinned_key_of_any_kind_is_found() -> Result<()> {
    let world = World::new().await?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("ecdsa");
    let made = std::process::Command::new("ssh-keygen")
        .args(["-q", "-t", "ecdsa", "-N", "", "-f"])
        .arg(&path)
        .status()?;
    assert!(made.success());
    let both = World::on(Sshd::start_with(&format!("HostKey {}", path.display())).await?)?;
    let line = std::process::Command::new("ssh-keygen")
        .arg("-lf")
        .arg(&path)
        .output()?;
    let line = String::from_utf8(line.stdout)?;
    let pinned = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut to = both.destination()?;
    change(&mut to, |target| target.host_key = pinned);

    done(both.caller.run(&both.append(""), &to, key("a")).await);
    let tested = world.caller.test(&world.destination()?).await.unwrap();

    assert!(tested.starts_with("authenticated as "), "{tested}");
    assert_eq!(both.effects(), 1);
    Ok(())
}
