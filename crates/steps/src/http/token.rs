//! OAuth 2 client credentials: a token is fetched once, kept, and fetched again before it expires.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use semel_model::{Fault, SecretText};
use serde::Deserialize;
use tokio::time::Instant;
use url::form_urlencoded;

use super::Pooling;
use super::auth::basic;
use super::body::Outgoing;
use super::classify::{describe, find_refusal};
use super::client::{Client, OutgoingRequest, Response};
use super::head;
use super::send_state::{SENDING, SendState};
use crate::destination::{Destination, Identity};
use crate::redact::Redactor;

/// How long a token server may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a token is used where its server does not say.
const USED_FOR: Duration = Duration::from_secs(300);

/// A token is not used for the last part of its life: it would expire on its way.
const MARGIN: Duration = Duration::from_secs(30);

/// The longest answer of a token server that is read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The most destinations whose tokens are kept.
const KEPT_MAX: usize = 4096;

/// The tokens of every destination that this process connects to.
#[derive(Default)]
pub struct Tokens {
    slots: Mutex<HashMap<(i32, String), Arc<Slot>>>,
}

struct Slot {
    identity: Identity,
    /// Held while a token is fetched, so that many runs fetch one.
    token: tokio::sync::Mutex<Option<Kept>>,
}

/// A token, for as long as it is used.
struct Kept {
    text: SecretText,
    until: Instant,
    redactor: Arc<Redactor>,
}

/// A token in use.
pub(super) struct Held {
    pub(super) text: SecretText,
    /// Whether it was fetched for an earlier request: it may have been taken back since.
    pub(super) kept: bool,
    /// Finds it, and the secrets of its connection. The connection's own redactor does not know it: many
    /// tokens may be on their way at once, each good for a while after the next was fetched.
    pub(super) redactor: Arc<Redactor>,
}

/// Who asks for a token, and where.
pub(super) struct TokenRequest<'a> {
    pub(super) url: &'a str,
    pub(super) id: &'a str,
    pub(super) secret: &'a SecretText,
    pub(super) scope: Option<&'a str>,
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    #[serde(default)]
    token_type: Option<String>,
    #[serde(default)]
    expires_in: Option<serde_json::Value>,
}

impl Tokens {
    /// The destination's token, fetched where there is none that lasts.
    pub(super) async fn get(
        &self,
        to: &Destination,
        asking: TokenRequest<'_>,
        client: (&Client, Instant),
    ) -> Result<Held, Fault> {
        let slot = self.slot(to);
        let mut token = slot.token.lock().await;
        if let Some(known) = &*token
            && Instant::now() < known.until
        {
            return Ok(Held {
                text: known.text.clone(),
                kept: true,
                redactor: known.redactor.clone(),
            });
        }
        let begun = Instant::now();
        let (text, lasts) = fetch(asking, client).await?;
        let redactor = to.redactor_with("token", &text);
        // At least half of a short life is used.
        let used_for = lasts.saturating_sub(MARGIN).max(lasts / 2);
        *token = Some(Kept {
            text: text.clone(),
            until: begun + used_for,
            redactor: redactor.clone(),
        });
        Ok(Held {
            text,
            kept: false,
            redactor,
        })
    }

    /// Forgets a token that was refused, so that the next attempt fetches another.
    pub(super) async fn forget(&self, to: &Destination, refused: &Held) {
        let slot = self.slot(to);
        let mut token = slot.token.lock().await;
        if let Some(known) = &*token
            && known.text.reveal() == refused.text.reveal()
        {
            *token = None;
        }
    }

    fn slot(&self, to: &Destination) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (to.namespace_id, to.name.clone());
        if let Some(slot) = slots.get(&name)
            && slot.identity == to.identity()
        {
            return slot.clone();
        }
        if slots.len() >= KEPT_MAX {
            slots.clear();
        }
        let slot = Arc::new(Slot {
            identity: to.identity(),
            token: tokio::sync::Mutex::default(),
        });
        slots.insert(name, slot.clone());
        slot
    }
}

/// Fetches a token, and tells how long it lasts. Whatever goes wrong here, the request that needed
/// the token was not sent.
async fn fetch(
    asking: TokenRequest<'_>,
    (client, deadline): (&Client, Instant),
) -> Result<(SecretText, Duration), Fault> {
    let url = head::read_url(asking.url)?;
    let port = url.port_or_known_default().unwrap_or_default();
    let sending_state = Arc::new(SendState::new(port, true, Pooling::Shared));
    let headers = [
        (AUTHORIZATION, credentials(&asking)?),
        (ACCEPT, HeaderValue::from_static("application/json")),
        (
            CONTENT_TYPE,
            HeaderValue::from_static("application/x-www-form-urlencoded"),
        ),
    ];
    let request = OutgoingRequest {
        method: Method::POST,
        url: &url,
        headers: HeaderMap::from_iter(headers),
        body: Outgoing::Right(form(&asking).into()),
        deadline: deadline.min(Instant::now() + PATIENCE),
    };
    let answer = SENDING.scope(sending_state, client.send(request)).await;
    let answer = answer.map_err(|error| match find_refusal(&error) {
        Some(fault) => fault.clone(),
        None => unavailable(&describe(&error)),
    })?;
    read(answer).await
}

/// The client's name and secret, escaped as RFC 6749 has it.
fn credentials(asking: &TokenRequest<'_>) -> Result<HeaderValue, Fault> {
    let escape = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let secret = SecretText::new(escape(asking.secret.reveal()));
    let who = basic(&escape(asking.id), secret.reveal());
    let mut who = HeaderValue::from_str(who.reveal()).map_err(|_| refused("an unusable secret"))?;
    who.set_sensitive(true);
    Ok(who)
}

fn form(asking: &TokenRequest<'_>) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials");
    if let Some(scope) = asking.scope {
        form.append_pair("scope", scope);
    }
    form.finish()
}

async fn read(mut answer: Response) -> Result<(SecretText, Duration), Fault> {
    match answer.status {
        StatusCode::OK | StatusCode::CREATED => {}
        status @ (StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT) => {
            return Err(unavailable(&status.to_string()));
        }
        status if status.is_client_error() => return Err(refused(&status.to_string())),
        status => return Err(unavailable(&status.to_string())),
    }
    let mut body = Vec::new();
    while let Some(chunk) = answer
        .chunk()
        .await
        .map_err(|e| unavailable(&describe(&e)))?
    {
        body.extend_from_slice(&chunk);
        if body.len() > ANSWER_BYTES_MAX {
            return Err(refused("a response that is too long"));
        }
    }
    // The answer holds a token: nothing of it goes into a message.
    let granted: Granted =
        serde_json::from_slice(&body).map_err(|_| refused("a response without an access_token"))?;
    let bearer = |kind: &String| kind.eq_ignore_ascii_case("bearer");
    if !granted.token_type.as_ref().is_none_or(bearer) {
        return Err(refused("a token that is not a bearer token"));
    }
    let seconds = granted.expires_in.and_then(|value| match value {
        serde_json::Value::Number(number) => number.as_u64(),
        serde_json::Value::String(text) => text.parse().ok(),
        serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Array(_)
        | serde_json::Value::Object(_) => None,
    });
    let lasts = seconds.map_or(USED_FOR, |seconds| Duration::from_secs(seconds.min(86_400)));
    Ok((SecretText::new(granted.access_token), lasts))
}

fn refused(why: &str) -> Fault {
    let message = format!("the token server returned no token: {why}");
    Fault::permanent("sign-in-refused", message)
}

fn unavailable(why: &str) -> Fault {
    let message = format!("the token server did not answer: {why}");
    Fault::passing("sign-in-unavailable", message)
}
