//! Sending a request and reading its answer.

use reqwest::{RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;

use super::{Answer, ClientError};
use crate::types::Problem;

/// The header that marks the answer to an earlier request.
const REPLAYED: &str = "Idempotency-Replayed";

/// Sends a request that changes nothing.
pub(super) async fn read<T: DeserializeOwned>(request: RequestBuilder) -> Result<T, ClientError> {
    Ok(carry_out(request).await?.body)
}

/// Sends a request that changes something.
pub(super) async fn carry_out<T: DeserializeOwned>(
    request: RequestBuilder,
) -> Result<Answer<T>, ClientError> {
    let response = request.send().await.map_err(ClientError::Unreachable)?;
    let status = response.status();
    let replayed = response.headers().contains_key(REPLAYED);
    let text = response.bytes().await.map_err(ClientError::Unreachable)?;
    if !status.is_success() {
        return Err(read_problem(status, &text));
    }
    match serde_json::from_slice(&text) {
        Ok(body) => Ok(Answer { body, replayed }),
        Err(error) => Err(malformed(status, &error)),
    }
}

/// Sends a request whose answer is read piece by piece.
pub(super) async fn receive(request: RequestBuilder) -> Result<Response, ClientError> {
    let response = request.send().await.map_err(ClientError::Unreachable)?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let text = response.bytes().await.map_err(ClientError::Unreachable)?;
    Err(read_problem(status, &text))
}

fn read_problem(status: StatusCode, text: &[u8]) -> ClientError {
    match serde_json::from_slice::<Problem>(text) {
        Ok(problem) => ClientError::Problem(Box::new(problem)),
        Err(error) => malformed(status, &error),
    }
}

fn malformed(status: StatusCode, error: &serde_json::Error) -> ClientError {
    ClientError::Malformed {
        status,
        detail: error.to_string(),
    }
}
