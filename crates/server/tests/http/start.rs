//! What every test of a server pays: `.ci/long suite` shows what this one costs.

use anyhow::Result;
use hyper::Method;

use crate::world::World;

#[tokio::test]
async fn a_server_starts_and_answers() -> Result<()> {
    let world = World::start().await?;

    let answer = world
        .bare
        .send(Method::GET, "/healthz", &[], "".into())
        .await?;

    assert_eq!(answer.status, 200);
    Ok(())
}
