//! Who may answer: only the API token that claimed a task, or began a key, whatever others know of it.

use anyhow::Result;
use semel_api::{Client, ClientError};
use semel_model::{Right, Rights};

use crate::world::{World, add_token_with};

mod scripts;
mod waiting;
mod workers;

/// A client with a token of its own that works and begins keys, and may do nothing else.
async fn worker(world: &World, name: &str) -> Result<Client> {
    client(world, name, &[Right::Work, Right::Once]).await
}

async fn client(world: &World, name: &str, rights: &[Right]) -> Result<Client> {
    let rights: Rights = rights.iter().copied().collect();
    let token = add_token_with(world.engine.cell(), name, rights).await?;
    Ok(Client::new(world.client.base(), &token)?)
}

/// What a refusal says: its code, and its words for people.
fn refusal<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> Result<(String, String)> {
    match answer {
        Err(ClientError::Problem(problem)) => Ok((problem.code.clone(), problem.detail.clone())),
        other => anyhow::bail!("not refused: {other:?}"),
    }
}
