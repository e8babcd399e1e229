//! A detached command is started once, and calls back when it ends.

use anyhow::Result;
use futures_util::future::join_all;
use semel_model::request::Detach;
use semel_testkit::peer::Behaviour;
use semel_testkit::{Peer, until};
use serde_json::{Value, json};

use crate::ssh::world::{World, done, key, until_there};

#[tokio::test(flavor = "multi_thread")]
async fn it_is_started_once_and_calls_once_it_ended() -> Result<()> {
    let world = World::new().await?;
    let peer = Peer::start().await?;
    // The first call is refused: it is made again.
    peer.next("/plain/end", Behaviour::RefuseWith(503)).await?;
    let mut command = world.append_and_wait("cat; echo bad >&2; exit 7");
    command.stdin = Some("read me".to_owned());
    command.detach = Some(Detach {
        callback: peer.url("/plain/end"),
    });

    let started = join_all((0..20).map(|_| world.perform(&command, key("a")))).await;
    world.open_gate()?;
    let calls = async || -> Result<u64> { Ok(peer.count("/plain/end").await?.effects) };
    until("the call at the end", calls, |calls| *calls > 0).await?;

    let started: Vec<Value> = started
        .into_iter()
        .map(|outcome| done(outcome.unwrap()))
        .collect();
    assert_eq!(started[0]["started"], json!(true));
    assert!(
        started.iter().all(|one| one == &started[0]),
        "all tell of one process: {started:?}"
    );
    assert_eq!(world.effects(), 1);
    let effects = peer.effects().await?;
    let body: Value = serde_json::from_str(&effects[0].body)?;
    assert_eq!(
        body,
        json!({"exit": 7, "stdout_base64": "cmVhZCBtZQ==", "stderr_base64": "YmFkCg=="})
    );
    assert_eq!(effects.len(), 1);
    Ok(())
}

#[tokio::test]
async fn no_connection_is_held_while_it_runs() -> Result<()> {
    let world = World::new().await?;
    let peer = Peer::start().await?;
    let mut command = world.append_and_wait("");
    command.detach = Some(Detach {
        callback: peer.url("/plain/end"),
    });

    done(world.perform(&command, key("a")).await?);

    let exit = world.exit_of(key("a"));
    assert!(!exit.exists(), "it is still running");
    world.open_gate()?;
    until_there(&exit).await?;
    assert_eq!(world.effects(), 1);
    Ok(())
}
