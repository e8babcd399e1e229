//! A delivery signed by the rules of Standard Webhooks.
//!
//! What is signed is `id.timestamp.body`. The id is the effect's key and the body is pinned, so a
//! repeat differs in its moment alone, which receivers compare with their own clocks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use semel_model::connection::WebhookTarget;
use semel_model::request::{HttpRequest, Message};
use semel_model::{EffectId, Fault, SecretText};
use serde_json::json;
use sha2::Sha256;

use super::{Signed, WebhookPayload};
use crate::destination::Destination;

/// What secrets of this kind begin with.
const PREFIX: &str = "whsec_";

/// The request that delivers a message.
pub(super) fn request(
    message: &Message,
    to: &Destination,
    target: &WebhookTarget,
    key: EffectId,
) -> Result<Signed, Fault> {
    let body = json!({
        "to": message.to,
        "subject": message.subject,
        "text": message.text,
        "html": message.html,
    });
    let payload = WebhookPayload {
        body: &body.to_string(),
        content_type: "application/json",
        timeout: message.timeout,
    };
    payload_request(payload, to, target, key)
}

/// The request that delivers bytes as they are.
pub(super) fn payload_request(
    payload: WebhookPayload<'_>,
    to: &Destination,
    target: &WebhookTarget,
    key: EffectId,
) -> Result<Signed, Fault> {
    let body = payload.body.to_owned();
    let id = key.to_string();
    let at = now();
    let signature = sign(to.secret(&target.secret)?, &id, at, &body)?;
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let request = HttpRequest {
        connection: Some(to.name.clone()),
        method: "POST".to_owned(),
        url: target.url.clone(),
        headers: vec![
            header("content-type", payload.content_type),
            header("webhook-id", &id),
            header("webhook-timestamp", &at.to_string()),
        ],
        key_header: None,
        body: Some(body),
        parts: Vec::new(),
        file: None,
        pages: None,
        timeout: payload.timeout,
    };
    Ok((request, [("webhook-signature", SecretText::new(signature))]))
}

#[expect(
    clippy::disallowed_methods,
    reason = "receivers compare the moment of sending with their own clocks; nothing of ours rests on it"
)]
fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// `v1,` and the code of `id.timestamp.body` under the secret.
fn sign(secret: &SecretText, id: &str, at: i64, body: &str) -> Result<String, Fault> {
    let unfit = || {
        let message = format!("the secret of a webhook is `{PREFIX}` and base64");
        Fault::permanent("secret-unfit", message)
    };
    let encoded = secret.reveal().strip_prefix(PREFIX).ok_or_else(unfit)?;
    let bytes = STANDARD.decode(encoded.trim()).map_err(|_| unfit())?;
    let mut code = Hmac::<Sha256>::new_from_slice(&bytes).map_err(|_| unfit())?;
    code.update(format!("{id}.{at}.{body}").as_bytes());
    Ok(format!(
        "v1,{}",
        STANDARD.encode(code.finalize().into_bytes())
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the documentation of Standard Webhooks' reference libraries.
    #[test]
    fn the_published_vector_is_signed_as_published() {
        let secret = SecretText::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned());

        let signed = sign(
            &secret,
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );

        assert_eq!(
            signed.unwrap(),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }
}
