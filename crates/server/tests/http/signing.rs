//! Sources that sign, each written out by hand from what its documentation says.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

/// The address to which sources send their deliveries.
const PUBLIC_URL: &str = "http://127.0.0.1:7171";

/// A request that its source signed.
#[derive(Clone, Debug)]
pub(crate) struct Signed {
    /// Path and query.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Signed {
    /// The same under another address.
    pub(crate) fn sent_to(mut self, target: &str) -> Self {
        self.target = target.to_owned();
        self
    }

    /// The same with another value of a header.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same without a header.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    /// The same with a header twice.
    pub(crate) fn doubled(mut self, name: &str) -> Self {
        let mut again = self.headers.clone();
        again.retain(|(known, _)| known == name);
        self.headers.extend(again);
        self
    }
}

/// The header that holds a source's signature or token.
pub(crate) fn proof_header(source: &str) -> &'static str {
    match source {
        "stripe" => "stripe-signature",
        "github" => "x-hub-signature-256",
        "slack" => "x-slack-signature",
        "shopify" => "x-shopify-hmac-sha256",
        "hubspot" => "x-hubspot-signature-v3",
        "twilio" => "x-twilio-signature",
        "linear" => "linear-signature",
        "pagerduty" => "x-pagerduty-signature",
        "typeform" => "typeform-signature",
        "standard-webhooks" => "webhook-signature",
        "described" => "x-shop-signature",
        "token" => "x-shop-token",
        other => panic!("unknown: {other}"),
    }
}

/// What a flow says of a hook for a source.
pub(crate) fn webhook(source: &str, secret: &str) -> String {
    let auth = match source {
        "described" => {
            "auth: { hmac: { header: x-shop-signature, algorithm: sha512, encoding: base64, \
             timestamp: x-shop-time, covers: [x-shop-id] } }, key: 'headers[\"x-shop-id\"]'"
        }
        "token" => "auth: { token: { header: x-shop-token } }, key: input.id",
        provider => return format!("{{ provider: {provider}, secret: {secret} }}"),
    };
    format!("{{ {auth}, secret: {secret} }}")
}

/// Signs a delivery of the event `id` to a hook.
pub(crate) fn sign(source: &str, secret: &str, target: &str, id: u32, at: Timestamp) -> Signed {
    let (secs, millis) = (at.as_second(), at.as_millisecond());
    let sha256 = |text: &str| mac(hmac::HMAC_SHA256, secret.as_bytes(), text);
    let json = ("content-type", "application/json".to_owned());
    let url = format!("{PUBLIC_URL}{target}");
    let (headers, body): (Vec<(&str, String)>, String) = match source {
        "stripe" => {
            let body = format!(r#"{{"id":"evt_{id}","pending_webhooks":1}}"#);
            let tag = hex::encode(sha256(&format!("{secs}.{body}")));
            let value = format!("t={secs},v1={},v1={tag},v0=00", "0".repeat(64));
            (vec![json, ("stripe-signature", value)], body)
        }
        "github" => {
            let body = format!(r#"{{"action":"opened","issue":{id}}}"#);
            let value = format!("sha256={}", hex::encode(sha256(&body)));
            let delivery = ("x-github-delivery", format!("delivery-{id}"));
            (vec![json, delivery, ("x-hub-signature-256", value)], body)
        }
        "slack" => {
            let body = format!(r#"{{"event_id":"Ev{id}"}}"#);
            let tag = hex::encode(sha256(&format!("v0:{secs}:{body}")));
            let time = ("x-slack-request-timestamp", secs.to_string());
            let proof = ("x-slack-signature", format!("v0={tag}"));
            (vec![json, time, proof], body)
        }
        "shopify" => {
            let body = format!(r#"{{"id":{id}}}"#);
            let proof = ("x-shopify-hmac-sha256", STANDARD.encode(sha256(&body)));
            let webhook = ("x-shopify-webhook-id", format!("webhook-{id}"));
            (vec![json, webhook, proof], body)
        }
        "hubspot" => {
            let body = format!(
                r#"[{{"eventId":{id},"subscriptionId":1,"portalId":2,"objectId":3,"occurredAt":4,"attemptNumber":0}}]"#
            );
            let text = format!("POST{}{body}{millis}", url.replace("%40", "@"));
            let time = ("x-hubspot-request-timestamp", millis.to_string());
            let proof = ("x-hubspot-signature-v3", STANDARD.encode(sha256(&text)));
            (vec![json, time, proof], body)
        }
        "twilio" => {
            let body = format!("MessageSid=SM{id}&From=%2B1500&MessageStatus=delivered");
            let text = format!("{url}From+1500MessageSidSM{id}MessageStatusdelivered");
            let tag = mac(
                hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
                secret.as_bytes(),
                &text,
            );
            let form = "application/x-www-form-urlencoded; charset=utf-8".to_owned();
            let proof = ("x-twilio-signature", STANDARD.encode(tag));
            (vec![("content-type", form), proof], body)
        }
        "linear" => {
            let body = format!(r#"{{"action":"update","n":{id},"webhookTimestamp":{millis}}}"#);
            let delivery = ("linear-delivery", format!("delivery-{id}"));
            let proof = ("linear-signature", hex::encode(sha256(&body)));
            (vec![json, delivery, proof], body)
        }
        "pagerduty" => {
            let body = format!(r#"{{"event":{{"id":"pd-{id}"}}}}"#);
            let value = format!("v1={}, v1={}", "0".repeat(64), hex::encode(sha256(&body)));
            (vec![json, ("x-pagerduty-signature", value)], body)
        }
        "typeform" => {
            let body =
                format!(r#"{{"event_type":"form_response","form_response":{{"token":"t{id}"}}}}"#);
            let value = format!("sha256={}", STANDARD.encode(sha256(&body)));
            (vec![json, ("typeform-signature", value)], body)
        }
        "standard-webhooks" => {
            let body = format!(r#"{{"type":"paid","n":{id}}}"#);
            let key = STANDARD.decode(secret.trim_start_matches("whsec_"));
            let key = key.unwrap_or_default();
            let text = format!("msg_{id}.{secs}.{body}");
            let tag = STANDARD.encode(mac(hmac::HMAC_SHA256, &key, &text));
            let proof = ("webhook-signature", format!("v1a,AAAA v1,AAAA v1,{tag}"));
            let named = ("webhook-id", format!("msg_{id}"));
            let time = ("webhook-timestamp", secs.to_string());
            (vec![json, named, time, proof], body)
        }
        "described" => {
            let body = format!(r#"{{"n":{id}}}"#);
            let text = format!("shop-{id}.{secs}.{body}");
            let tag = STANDARD.encode(mac(hmac::HMAC_SHA512, secret.as_bytes(), &text));
            let named = ("x-shop-id", format!("shop-{id}"));
            let time = ("x-shop-time", secs.to_string());
            (vec![json, named, time, ("x-shop-signature", tag)], body)
        }
        "token" => {
            let body = format!(r#"{{"id":"{id}"}}"#);
            (vec![json, ("x-shop-token", secret.to_owned())], body)
        }
        other => panic!("unknown: {other}"),
    };
    let headers = headers.into_iter();
    Signed {
        target: target.to_owned(),
        headers: headers
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        body,
    }
}

/// Signs a body of any kind as Slack does.
pub(crate) fn sign_as_slack(secret: &str, target: &str, body: &str, at: Timestamp) -> Signed {
    let secs = at.as_second();
    let text = format!("v0:{secs}:{body}");
    let tag = hex::encode(mac(hmac::HMAC_SHA256, secret.as_bytes(), &text));
    let headers = [
        ("content-type", "application/json".to_owned()),
        ("x-slack-request-timestamp", secs.to_string()),
        ("x-slack-signature", format!("v0={tag}")),
    ];
    Signed {
        target: target.to_owned(),
        headers: headers
            .map(|(name, value)| (name.to_owned(), value))
            .to_vec(),
        body: body.to_owned(),
    }
}

/// Signs a form as Twilio does. The fields stand in the order of their names, and need no escapes.
pub(crate) fn sign_as_twilio(secret: &str, target: &str, fields: &[(&str, &str)]) -> Signed {
    let text: String = fields
        .iter()
        .flat_map(|(name, value)| [*name, *value])
        .collect();
    let key = secret.as_bytes();
    let text = format!("{PUBLIC_URL}{target}{text}");
    let tag = mac(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key, &text);
    let form = "application/x-www-form-urlencoded";
    Signed {
        target: target.to_owned(),
        headers: vec![
            ("content-type".to_owned(), form.to_owned()),
            ("x-twilio-signature".to_owned(), STANDARD.encode(tag)),
        ],
        body: form_of(fields),
    }
}

/// A form of fields that need no escapes.
pub(crate) fn form_of(fields: &[(&str, &str)]) -> String {
    let fields = fields.iter();
    let fields: Vec<String> = fields
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    fields.join("&")
}

fn mac(algorithm: hmac::Algorithm, key: &[u8], text: &str) -> Vec<u8> {
    let tag = hmac::sign(&hmac::Key::new(algorithm, key), text.as_bytes());
    tag.as_ref().to_vec()
}
