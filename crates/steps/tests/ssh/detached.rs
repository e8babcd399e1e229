//! A detached command is started once, and calls back when it ends.

use anyhow::Result;
use futures_util::future::join_all;
use semel_model::request::Detach;
use semel_testkit::Peer;
use semel_testkit::peer::Behaviour;
use serde_json::{Value, json};

use crate::ssh::world::{World, done, key, until};

#[tokio::test(flavor = "multi_thread")]
async fn it_is_started_once_and_calls_once_it_ended() -> Result<()> {
    let world = World::new().await?;
    let peer = Peer::start().await?;
    // The first call is refused: it is made again.
    peer.next("/plain/end", Behaviour::RefuseWith(503)).await?;
    let mut command = world.append("cat; echo bad >&2; sleep 1; exit 7");
    command.stdin = Some("read me".to_owned());
    command.detach = Some(Detach {
        callback: peer.url("/plain/end"),
    });

    let started = join_all((0..20).map(|_| world.perform(&command, key("a")))).await;
    let called = async {
        while peer.count("/plain/end").await.unwrap().effects == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::ssh::world::PATIENCE, called).await?;

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
    let mut command = world.append("sleep 2");
    command.detach = Some(Detach {
        callback: peer.url("/plain/end"),
    });

    let began = tokio::time::Instant::now();
    done(world.perform(&command, key("a")).await?);

    let exit = world
        .server
        .state()
        .join(format!("semel/{}/exit", key("a")));
    assert!(
        !exit.exists(),
        "it is still running after {:?}",
        began.elapsed()
    );
    assert!(until(|| exit.exists()).await);
    assert_eq!(world.effects(), 1);
    Ok(())
}
