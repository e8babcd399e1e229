//! A call that its caller writes out.

use std::time::Duration;

use reqwest::{Method, Url};
use serde_json::Value;

use super::{Answer, Client, ClientError, transfer};

/// How long an answer may take: a request may ask the server to wait for a minute.
const PATIENCE: Duration = Duration::from_secs(90);

impl Client {
    /// Calls an address of the API with its query, e.g. `/v1/runs?limit=1`, under a key where the
    /// caller has one.
    pub async fn call(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        key: Option<&str>,
    ) -> Result<Answer<Value>, ClientError> {
        let method = Method::from_bytes(method.as_bytes());
        let method = method.map_err(|error| ClientError::Address(error.to_string()))?;
        let mut request = self.http.request(method, self.address(path)?);
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        transfer::carry_out(request.timeout(PATIENCE)).await
    }

    /// An address of this server below `/v1`. The token is sent nowhere else: a flow sees the headers
    /// that its hook gets.
    fn address(&self, path: &str) -> Result<Url, ClientError> {
        let mut url = self.base.clone();
        let before = url.path().trim_end_matches('/').to_owned();
        let (path, query) = match path.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (path, None),
        };
        url.set_path(&format!("{before}{path}"));
        url.set_query(query);
        match path.starts_with('/') && url.path().starts_with(&format!("{before}/v1/")) {
            true => Ok(url),
            false => Err(ClientError::Address(
                "the path has to begin with /v1/".to_owned(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(path: &str) -> Option<String> {
        let client = Client::new("https://semel.example/below/", "t").unwrap();
        client.address(path).ok().map(String::from)
    }

    #[test]
    fn a_path_keeps_its_query_and_the_server_s_own_path() {
        assert_eq!(
            address("/v1/runs?flow=a&key=b%20c").as_deref(),
            Some("https://semel.example/below/v1/runs?flow=a&key=b%20c")
        );
    }

    #[test]
    fn the_token_goes_nowhere_but_to_the_api() {
        for path in [
            "",
            "v1/runs",
            "/hooks/main/orders",
            "/v1",
            "/v1/../hooks/main/orders",
            "/v1/%2e%2e/hooks/main/orders",
            "/v1/..\\hooks",
            "//evil.example/v1/runs",
            "@evil.example/v1/runs",
            "https://evil.example/v1/runs",
            "?/v1/runs",
        ] {
            assert_eq!(address(path), None, "{path}");
        }
    }
}
