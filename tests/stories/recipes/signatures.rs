//! How each provider of the recipes signs what it delivers.

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;

use super::house::{Delivery, House};
use super::stand_ins::SECRET;

/// A checkout's event, as Stripe sends it.
pub(super) async fn stripe(house: &House, event: &Value) -> Result<Delivery> {
    let (body, at) = (event.to_string(), house.now().await?);
    let code = hex::encode(code(SECRET.as_bytes(), &format!("{at}.{body}"))?);
    let signed = ("stripe-signature", format!("t={at},v1={code}"));
    Ok(delivery("order-paid", vec![signed], body))
}

/// A form's submission, as Typeform sends it.
pub(super) fn typeform(event: &Value) -> Result<Delivery> {
    let body = event.to_string();
    let code = STANDARD.encode(code(SECRET.as_bytes(), &body)?);
    let signed = ("typeform-signature", format!("sha256={code}"));
    Ok(delivery("form-to-crm", vec![signed], body))
}

/// A request of the support desk.
pub(super) fn desk(event: &Value) -> Result<Delivery> {
    let body = event.to_string();
    let code = hex::encode(code(SECRET.as_bytes(), &body)?);
    let signed = ("x-desk-signature", format!("sha256={code}"));
    Ok(delivery("refund-requests", vec![signed], body))
}

/// A message of the HR system, by Standard Webhooks.
pub(super) async fn people(house: &House, id: &str, event: &Value) -> Result<Delivery> {
    let (body, at) = (event.to_string(), house.now().await?);
    let key = STANDARD.decode(SECRET.trim_start_matches("whsec_"))?;
    let code = STANDARD.encode(code(&key, &format!("{id}.{at}.{body}"))?);
    let headers = vec![
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", at.to_string()),
        ("webhook-signature", format!("v1,{code}")),
    ];
    Ok(delivery("user-provisioning", headers, body))
}

/// An incident's event, as PagerDuty sends it.
pub(super) fn pagerduty(event: &Value) -> Result<Delivery> {
    let body = event.to_string();
    let code = hex::encode(code(SECRET.as_bytes(), &body)?);
    let signed = ("x-pagerduty-signature", format!("v1={code}"));
    Ok(delivery("incident-paging", vec![signed], body))
}

/// A push, as GitHub sends it, under an id that the signature does not cover.
pub(super) fn github(id: &str, event: &Value) -> Result<Delivery> {
    let body = event.to_string();
    let code = hex::encode(code(SECRET.as_bytes(), &body)?);
    let headers = vec![
        ("x-github-event", "push".to_owned()),
        ("x-github-delivery", id.to_owned()),
        ("x-hub-signature-256", format!("sha256={code}")),
    ];
    Ok(delivery("remote-build", headers, body))
}

/// A list of events, as HubSpot sends it to an address.
pub(super) async fn hubspot(house: &House, events: &Value) -> Result<Delivery> {
    let (body, at) = (events.to_string(), house.now().await? * 1000);
    let url = format!("{}/hooks/default/crm-to-mailing-list", house.url());
    let code = code(SECRET.as_bytes(), &format!("POST{url}{body}{at}"))?;
    let headers = vec![
        ("x-hubspot-request-timestamp", at.to_string()),
        ("x-hubspot-signature-v3", STANDARD.encode(code)),
    ];
    Ok(delivery("crm-to-mailing-list", headers, body))
}

fn delivery(hook: &'static str, headers: Vec<(&'static str, String)>, body: String) -> Delivery {
    Delivery {
        hook,
        headers,
        body,
    }
}

fn code(key: &[u8], text: &str) -> Result<Vec<u8>> {
    let mut code = Hmac::<Sha256>::new_from_slice(key).ok().context("a key")?;
    code.update(text.as_bytes());
    Ok(code.finalize().into_bytes().to_vec())
}
