//! `POST /hooks/{namespace}/{path}`: deliveries from outside. The hot path.

use std::time::Instant;

use axum::Extension;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri, header};
use semel_api::Code;
use semel_engine::{Intake, IntakeError, WebhookRequest};
use semel_flow::provider::Challenge;

use crate::answer::Answered;
use crate::app::App;
use crate::body::Payload;
use crate::commands::KEY_HEADER;
use crate::error::ApiError;
use crate::intake;
use crate::rate_limit::Peer;
use crate::respond::{self, Hold};

/// By this header a source of CloudEvents asks whether it may deliver.
const REQUEST_ORIGIN: &str = "webhook-request-origin";

/// Headers that are about the connection, or that carry credentials: a flow never sees them. The
/// engine withholds a header that holds the hook's token, after it has verified the token.
const WITHHELD: [HeaderName; 8] = [
    header::COOKIE,
    header::PROXY_AUTHORIZATION,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Accepts a delivery whose signature or token verifies. A repeat gets the response to the first.
pub(crate) async fn receive(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Path((namespace, path)): Path<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
    request: Request,
) -> Answered {
    // No body is read for a hook that does not exist, or that is at its rate limit.
    app.engine.has_hook(&namespace, &path).await?;
    let hook = format!("{namespace}/{path}");
    app.edge.admits_some(&hook)?;
    let received = Payload::receive(&headers, request.into_body(), Some(peer), &app).await;
    if received.as_ref().is_err_and(ApiError::is_too_large) {
        Box::pin(app.engine.note_too_large(&namespace, &path)).await;
    }
    let (body, memory) = received?.into_parts();
    let began = Instant::now();
    let arrival = WebhookRequest {
        namespace: namespace.clone(),
        path,
        target: uri
            .path_and_query()
            .map_or_else(String::new, ToString::to_string),
        body: body.into(),
        headers: read_headers(&headers),
        query: read_query(&uri)?,
    };
    let delivery = match app.engine.authenticate(arrival).await {
        Err(IntakeError::SignatureInvalid) => {
            return Err(app.edge.refuse_auth_failure(&hook, peer));
        }
        judged => judged.map_err(ApiError::from)?,
    };
    app.edge.admit(&hook)?;
    if let Some(challenge) = delivery.challenge() {
        return Ok(respond::challenge(challenge));
    }
    let hold = delivery
        .respond_within()
        .map(|within| Hold { namespace, within });
    let engine = app.engine.clone();
    // A sender with a key of its own is a program that reads the response, and not a provider that
    // only counts failures.
    let reads_answers = headers.contains_key(KEY_HEADER);
    let work = async move {
        // Returned with the delivery, which may outlive its sender's timeout.
        let _memory = memory;
        match engine.deliver(delivery).await {
            Err(IntakeError::Mismatch { run }) if !reads_answers => Ok(Err(run)),
            other => other.map(Ok),
        }
    };
    let taken = intake::take_in(&app, work).await;
    app.hook_seconds.observe(began.elapsed().as_secs_f64());
    let taken = match taken? {
        Ok(taken) => taken,
        Err(run) => return intake::mismatched(run),
    };
    match taken {
        Intake::Accepted(accepted) => respond::respond(&app, accepted, hold).await,
        Intake::Held(accepted) => intake::receipt(StatusCode::ACCEPTED, &accepted, true),
        Intake::Ignored => intake::ignored(),
        Intake::Stale(stale) => intake::stale(&stale),
    }
}

/// Says to a source that asks first that it may deliver, and how much.
pub(crate) async fn preflight(
    State(app): State<App>,
    Path((namespace, path)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answered {
    let asks = app.engine.hook_challenge(&namespace, &path).await?;
    match asks {
        Some(Challenge::RequestOrigin) if headers.contains_key(REQUEST_ORIGIN) => {
            Ok(respond::allowed(app.options.hook_rate))
        }
        Some(Challenge::RequestOrigin | Challenge::UrlVerification) | None => {
            let detail = "this hook takes deliveries with POST, and is not asked first";
            Err(ApiError::new(Code::MethodNotAllowed, detail))
        }
    }
}

/// The headers as a flow may see them; a value that is not text is none.
fn read_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    headers
        .iter()
        .filter(|(name, _)| !WITHHELD.contains(name))
        .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.into())))
        .collect()
}

fn read_query(uri: &Uri) -> Result<Vec<(String, String)>, ApiError> {
    if uri.query().is_none() {
        return Ok(Vec::new());
    }
    match Query::try_from_uri(uri) {
        Ok(Query(pairs)) => Ok(pairs),
        Err(error) => Err(ApiError::new(Code::QueryInvalid, error.body_text())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_never_sees_other_credentials() {
        let headers = HeaderMap::from_iter([
            (header::PROXY_AUTHORIZATION, "Bearer hush".parse().unwrap()),
            (header::COOKIE, "a=b".parse().unwrap()),
            (header::USER_AGENT, "shop/1".parse().unwrap()),
        ]);

        let seen = read_headers(&headers);

        assert_eq!(seen, [("user-agent".to_owned(), "shop/1".to_owned())]);
    }

    #[test]
    fn a_query_is_read_in_order_and_unescaped() {
        let uri = Uri::from_static("/hooks/main/orders?b=1%202&a=x&b=3");

        let pairs = read_query(&uri).unwrap();

        let expected = [("b", "1 2"), ("a", "x"), ("b", "3")];
        assert_eq!(pairs, expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
    }
}
