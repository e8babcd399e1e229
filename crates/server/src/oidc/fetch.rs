//! Documents of the provider.

use semel_engine::BoundedClient;
use serde_json::Value;

use super::ProviderError;

/// Reads a document of the provider.
pub(super) async fn fetch_json(
    client: &BoundedClient,
    url: &str,
    what: &str,
) -> Result<Value, ProviderError> {
    let unread = |why: String| {
        ProviderError::Unavailable(format!("the provider's {what} cannot be read: {why}"))
    };
    let answer = client.get(url, None).await;
    let answer = answer.map_err(|error| unread(error.to_string()))?;
    if answer.status != 200 {
        return Err(unread(format!("status {}", answer.status)));
    }
    serde_json::from_slice(&answer.body).map_err(|_| unread("it is not JSON".to_owned()))
}
