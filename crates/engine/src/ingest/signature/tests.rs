//! Every preset's recorded deliveries, and what is wrong with those that are not genuine.

use std::collections::BTreeMap;
use std::path::Path;

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;
use proptest::prelude::*;
use semel_flow::provider::{self, Provider};
use semel_flow::release::SignedPart;
use serde::Deserialize;
use serde_json::Value;

use super::*;

#[derive(Clone, Deserialize)]
struct Delivery {
    headers: BTreeMap<String, String>,
    body: String,
}

#[derive(Deserialize)]
struct Sample {
    secret: String,
    #[serde(default)]
    url: String,
    #[serde(flatten)]
    first: Delivery,
    repeat: Delivery,
    other: Delivery,
}

/// A request that can be tampered with.
#[derive(Clone)]
struct Request {
    auth: WebhookAuth,
    secrets: Vec<String>,
    headers: Vec<(String, String)>,
    url: String,
    body: Vec<u8>,
    now: Timestamp,
}

impl Request {
    fn judge(&self) -> Result<(), VerifyError> {
        let secrets: Vec<SecretText> = self.secrets.iter().cloned().map(SecretText::new).collect();
        let query = self.url.split_once('?').map_or("", |(_, query)| query);
        let query: Vec<(String, String)> = url::form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect();
        let call = SignedRequest {
            headers: &self.headers,
            url: &self.url,
            query: &query,
            body: &self.body,
        };
        judge(&self.auth, &secrets, &call, self.now)
    }

    fn with(&self, change: impl FnOnce(&mut Self)) -> Result<(), VerifyError> {
        let mut changed = self.clone();
        change(&mut changed);
        changed.judge()
    }

    fn signature(&self) -> &Signature {
        match &self.auth {
            WebhookAuth::Signature { signature, .. } => signature,
            WebhookAuth::None | WebhookAuth::Token { .. } => unreachable!("it is signed"),
        }
    }

    fn set(&mut self, name: &str, value: &str) {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
    }
}

/// What a flow with this trigger demands.
fn auth(webhook: &str) -> WebhookAuth {
    let source = format!(
        "flow: hook\ntrigger:\n  webhook: {webhook}\nsteps:\n  - id: note\n    kv: {{ add: seen }}\n"
    );
    let checked = semel_flow::check("hook.flow.yaml", &source);
    let flow = checked
        .flow
        .clone()
        .unwrap_or_else(|| panic!("{}", checked.render(false)));
    flow.trigger.webhook.unwrap().auth
}

fn signed_presets() -> impl Iterator<Item = &'static Provider> {
    let all = provider::all().iter();
    all.filter(|provider| provider.signature.is_some())
}

fn sample(name: &str) -> Sample {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../flow/tests/providers");
    let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A recorded delivery, at the time when it was sent.
fn request(provider: &Provider, sample: &Sample, delivery: &Delivery) -> Request {
    let mut request = Request {
        auth: auth(&format!("{{ provider: {}, secret: s }}", provider.name)),
        secrets: vec![sample.secret.clone()],
        headers: delivery.headers.clone().into_iter().collect(),
        url: sample.url.clone(),
        body: delivery.body.clone().into_bytes(),
        now: Timestamp::UNIX_EPOCH,
    };
    request.now = sent_at(&request).unwrap_or(request.now);
    request
}

fn sent_at(request: &Request) -> Option<Timestamp> {
    let signature = request.signature();
    let sent = signature.sent.as_ref()?;
    let header = |name: &str| {
        let mut headers = request.headers.iter();
        headers
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.clone())
    };
    let text = match &sent.at {
        SentAt::Header(name) => header(name)?,
        SentAt::Beside(prefix) => {
            let all = header(&signature.header)?;
            let mut entries = all.split(',');
            entries.find_map(|entry| entry.strip_prefix(prefix.as_str()).map(str::to_owned))?
        }
        SentAt::Body(field) => {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            body[field].to_string()
        }
    };
    read_time(sent, &text)
}

fn firsts() -> Vec<(&'static str, Request)> {
    let first = |provider: &'static Provider| {
        let sample = sample(provider.name);
        (provider.name, request(provider, &sample, &sample.first))
    };
    signed_presets().map(first).collect()
}

#[test]
fn every_recorded_delivery_is_genuine() {
    for provider in signed_presets() {
        let sample = sample(provider.name);
        for delivery in [&sample.first, &sample.repeat, &sample.other] {
            let request = request(provider, &sample, delivery);
            assert_eq!(request.judge(), Ok(()), "{}", provider.name);
        }
    }
}

#[test]
fn one_bit_of_the_body_breaks_every_signature() {
    for (name, request) in firsts() {
        for at in [0, request.body.len() / 2, request.body.len() - 1] {
            let judged = request.with(|it| it.body[at] ^= 1);
            assert!(judged.is_err(), "{name} at {at}");
        }
    }
}

#[test]
fn only_a_usable_version_of_the_secret_fits_and_each_of_them_does() {
    for (name, request) in firsts() {
        let other = match name {
            "standard-webhooks" => "whsec_BAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
            _ => "another secret",
        };
        let right = request.secrets[0].clone();

        let wrong = request.with(|it| it.secrets = vec![other.to_owned()]);
        let none = request.with(|it| it.secrets.clear());
        let empty = request.with(|it| it.secrets = vec![String::new()]);
        let former = request.with(|it| it.secrets = vec![other.to_owned(), right.clone()]);
        let latest = request.with(|it| it.secrets = vec![right.clone(), other.to_owned()]);

        assert_eq!(wrong, Err(VerifyError::Unfit), "{name}");
        assert_eq!(none, Err(VerifyError::NoSecret), "{name}");
        assert_eq!(empty, Err(VerifyError::NoSecret), "{name}");
        assert_eq!((former, latest), (Ok(()), Ok(())), "{name}");
    }
}

#[test]
fn a_delivery_is_good_for_its_tolerance_in_both_directions_and_no_longer() {
    for (name, request) in firsts() {
        let Some(sent) = &request.signature().sent else {
            continue;
        };
        let most = SignedDuration::from_millis(sent.tolerance.as_millis() as i64);
        let more = most + SignedDuration::from_secs(1);

        let kept = [most, -most].map(|by| request.with(|it| it.now += by));
        let lost = [more, -more].map(|by| request.with(|it| it.now += by));

        assert_eq!(kept, [Ok(()), Ok(())], "{name}");
        assert_eq!(
            lost,
            [Err(VerifyError::Untimely), Err(VerifyError::Untimely)],
            "{name}"
        );
    }
}

#[test]
fn a_header_that_is_missing_or_stands_twice_proves_nothing() {
    for (name, request) in firsts() {
        let signature = request.signature().clone();
        let mut needed = vec![signature.header.clone()];
        for part in &signature.signed {
            if let SignedPart::Header(name) = part {
                needed.push(name.clone());
            }
        }
        if let Some(SentAt::Header(name)) = signature.sent.as_ref().map(|sent| &sent.at) {
            needed.push(name.clone());
        }
        for header in needed {
            let missing = request.with(|it| it.headers.retain(|(known, _)| *known != header));
            let twice = request.with(|it| {
                let mut again = it.headers.clone();
                again.retain(|(known, _)| *known == header);
                it.headers.extend(again);
            });
            assert_eq!(missing, Err(VerifyError::Incomplete), "{name} {header}");
            assert_eq!(twice, Err(VerifyError::Incomplete), "{name} {header}");
        }
    }
}

#[test]
fn the_address_is_signed_where_the_source_signs_it() {
    for name in ["hubspot", "twilio"] {
        let provider = provider::find(name).unwrap();
        let sample = sample(name);
        let request = request(provider, &sample, &sample.first);

        let elsewhere = request.with(|it| it.url = it.url.replace("acme", "other"));

        assert_eq!(elsewhere, Err(VerifyError::Unfit), "{name}");
    }
}

fn standard(secret: &str) -> Request {
    let provider = provider::find("standard-webhooks").unwrap();
    let sample = sample(provider.name);
    let mut request = request(provider, &sample, &sample.first);
    request.secrets = vec![secret.to_owned()];
    request
}

/// Signs a standard webhook anew, with a key of our own.
fn sign_standard(request: &mut Request, id: &str, key: &[u8]) {
    let time = request.now.as_second().to_string();
    request.set("webhook-id", id);
    request.set("webhook-timestamp", &time);
    let mut text = format!("{id}.{time}.").into_bytes();
    text.extend_from_slice(&request.body);
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), &text);
    let value = format!("v1,{}", STANDARD.encode(tag));
    request.set("webhook-signature", &value);
}

#[test]
fn a_secret_has_24_to_64_bytes_and_an_id_no_dot() {
    let judge = |bytes: usize, id: &str| {
        let key = vec![7; bytes];
        let mut request = standard(&format!("whsec_{}", STANDARD.encode(&key)));
        sign_standard(&mut request, id, &key);
        request.judge()
    };

    assert_eq!(judge(23, "msg_1"), Err(VerifyError::NoSecret));
    assert_eq!(judge(24, "msg_1"), Ok(()));
    assert_eq!(judge(64, "msg_1"), Ok(()));
    assert_eq!(judge(65, "msg_1"), Err(VerifyError::NoSecret));
    assert_eq!(judge(32, "msg.1"), Err(VerifyError::Incomplete));
}

#[test]
fn a_public_key_verifies_and_is_never_a_secret() {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[9; 32]).unwrap();
    let public = pair.public_key().as_ref();
    let mut request = standard(&format!("whpk_{}", STANDARD.encode(public)));
    let (id, time) = ("msg_1", request.now.as_second().to_string());
    let mut text = format!("{id}.{time}.").into_bytes();
    text.extend_from_slice(&request.body);
    let value = format!("v1a,{}", STANDARD.encode(pair.sign(&text)));
    request.set("webhook-id", id);
    request.set("webhook-timestamp", &time);
    request.set("webhook-signature", &value);

    assert_eq!(request.judge(), Ok(()));
    assert_eq!(request.with(|it| it.body[0] ^= 1), Err(VerifyError::Unfit));
    // The public key is not secret: an HMAC under it proves nothing.
    let forged = request.with(|it| sign_standard(it, "msg_1", public));
    assert_eq!(forged, Err(VerifyError::Unfit));
}

#[test]
fn a_header_with_too_many_signatures_is_refused() {
    let request = firsts()
        .into_iter()
        .find(|(name, _)| *name == "stripe")
        .unwrap()
        .1;
    let value = request
        .headers
        .iter()
        .find(|(name, _)| name == "stripe-signature");
    let value = value.unwrap().1.clone();

    let crowded = |more: usize| {
        let value = format!("{value}{}", ",v1=00".repeat(more));
        request.with(|it| it.set("stripe-signature", &value))
    };

    assert_eq!(crowded(10), Ok(()));
    assert_eq!(crowded(100), Err(VerifyError::Incomplete));
    let timed_twice = format!("{value},t=1");
    let judged = request.with(|it| it.set("stripe-signature", &timed_twice));
    assert_eq!(judged, Err(VerifyError::Incomplete));
}

#[test]
fn twilio_names_a_body_that_is_no_form_by_its_digest() {
    let body = br#"{"CallSid":"CA1"}"#;
    let url = format!(
        "https://semel.example/hook?bodySHA256={}",
        hex::encode(Sha256::digest(body))
    );
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, b"token");
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let request = Request {
        auth: auth("{ provider: twilio, secret: s }"),
        secrets: vec!["token".to_owned()],
        headers: vec![
            header("content-type", "application/json"),
            header(
                "x-twilio-signature",
                &STANDARD.encode(hmac::sign(&key, url.as_bytes())),
            ),
        ],
        url,
        body: body.to_vec(),
        now: Timestamp::UNIX_EPOCH,
    };

    assert_eq!(request.judge(), Ok(()));
    assert_eq!(
        request.with(|it| it.body[0] ^= 1),
        Err(VerifyError::Incomplete)
    );
}

/// A form to a hook of Twilio, which nobody has signed.
fn twilio_form(target: &str, body: &str) -> Request {
    let kind = "application/x-www-form-urlencoded".to_owned();
    Request {
        auth: auth("{ provider: twilio, secret: s }"),
        secrets: vec!["token".to_owned()],
        headers: vec![("content-type".to_owned(), kind)],
        url: format!("https://semel.example/hook{target}"),
        body: body.as_bytes().to_vec(),
        now: Timestamp::UNIX_EPOCH,
    }
}

#[test]
fn one_signed_text_has_one_digest_whatever_its_fields_are_said_to_be() {
    let digest = |request: &Request| {
        let query: Vec<(String, String)> = Vec::new();
        let call = SignedRequest {
            headers: &request.headers,
            url: &request.url,
            query: &query,
            body: &request.body,
        };
        text_digest(&request.auth, &call)
    };
    let genuine = digest(&twilio_form(
        "?a=1",
        "Body=hi&MessageSid=SM1&MessageStatus=sent",
    ));

    assert!(genuine.is_some());
    for (target, body) in [
        ("?a=1", "MessageStatus=sent&MessageSid=SM1&Body=hi"),
        ("?a=1", "Body=%68i&MessageSid=SM1&MessageStatus=sent"),
        ("?a=1", "Body=hi&MessageSid=SM1MessageStatussent"),
        ("?a=1Bodyhi", "MessageSid=SM1&MessageStatus=sent"),
    ] {
        assert_eq!(
            digest(&twilio_form(target, body)),
            genuine,
            "{target} {body}"
        );
    }
    let other = twilio_form("?a=1", "Body=hi&MessageSid=SM2&MessageStatus=sent");
    assert_ne!(digest(&other), genuine);
    for (name, request) in firsts() {
        let settled = request.signature().settles_payload();
        assert_eq!(digest(&request).is_none(), settled, "{name}");
        assert_eq!(settled, name != "twilio", "{name}");
    }
}

#[test]
fn behind_an_address_only_a_list_or_a_map_is_taken() {
    let provider = provider::find("hubspot").unwrap();
    let sample = sample(provider.name);
    let mut request = request(provider, &sample, &sample.first);
    let body = String::from_utf8(request.body.clone()).unwrap();
    let (moved, rest) = body.split_at(1);
    request.url = format!("{}{moved}", request.url);
    request.body = rest.strip_prefix('{').unwrap().as_bytes().to_vec();
    request.url.push('{');

    assert_eq!(request.judge(), Err(VerifyError::Incomplete));
}

#[test]
fn what_reads_as_json_is_json_whatever_it_is_declared() {
    for (body, is_form) in [
        ("5", false),
        ("\"a=1\"", false),
        (" [1]", false),
        ("a=1", true),
    ] {
        let request = twilio_form("", body);
        let call = SignedRequest {
            headers: &request.headers,
            url: &request.url,
            query: &[],
            body: &request.body,
        };
        assert_eq!(call.is_form(), is_form, "{body}");
    }
}

mod described;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn arbitrary_requests_are_refused_without_a_panic(
        body in proptest::collection::vec(any::<u8>(), 0..200),
        values in proptest::collection::vec("\\PC{0,80}|[tv01a=,. 0-9]{0,60}|sha256=[0-9a-f]{0,70}", 12),
        url in "\\PC{0,60}",
        secret in "\\PC{0,40}|whsec_[A-Za-z0-9+/=]{0,90}|whpk_[A-Za-z0-9+/=]{0,50}",
        at in any::<i32>(),
    ) {
        for (name, mut request) in firsts() {
            let names: Vec<String> = request.headers.iter().map(|(name, _)| name.clone()).collect();
            for (header, value) in names.iter().zip(&values) {
                request.set(header, value);
            }
            request.body = body.clone();
            request.url = url.clone();
            request.secrets = vec![secret.clone()];
            request.now = Timestamp::from_second(i64::from(at)).unwrap();
            prop_assert!(request.judge().is_err(), "{}", name);
        }
    }
}
