//! Every preset, against a recorded delivery of our own making: the delivery, the same event
//! delivered again, and another event.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod pages;
mod sha1;
mod verify;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use semel_flow::provider::{self, Provider, Source};
use semel_flow::{Expr, Scope};
use serde::Deserialize;
use serde_json::{Value, json};

/// One delivery as it came over the wire.
#[derive(Clone, Deserialize)]
struct Delivery {
    headers: BTreeMap<String, String>,
    body: String,
}

#[derive(Deserialize)]
struct Sample {
    secret: Option<String>,
    #[serde(default)]
    method: String,
    #[serde(default)]
    url: String,
    #[serde(flatten)]
    first: Delivery,
    repeat: Delivery,
    other: Delivery,
}

impl Delivery {
    fn input(&self) -> Value {
        let kind = &self.headers["content-type"];
        if kind.starts_with("application/x-www-form-urlencoded") {
            let fields = verify::form(&self.body);
            return serde_json::to_value(fields).unwrap();
        }
        semel_model::json::parse_strict(self.body.as_bytes()).unwrap()
    }

    fn eval(&self, source: &str) -> Value {
        let (input, headers) = (self.input(), serde_json::to_value(&self.headers).unwrap());
        let expr = Expr::compile(source, &["input", "headers"]).unwrap();
        let scope = Scope::new().with("input", &input).with("headers", &headers);
        expr.eval(&scope).unwrap()
    }
}

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn sample(provider: &Provider) -> Sample {
    let path = folder("tests/providers").join(format!("{}.json", provider.name));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_repeat_has_the_same_key_and_another_event_has_another() {
    for provider in provider::all() {
        let sample = sample(provider);

        let key = sample.first.eval(provider.key);
        let repeat = sample.repeat.eval(provider.key);
        let other = sample.other.eval(provider.key);

        assert!(
            key.as_str().is_some_and(|key| !key.is_empty()),
            "{}: {key}",
            provider.name
        );
        assert_eq!(key, repeat, "{}", provider.name);
        assert_ne!(key, other, "{}", provider.name);
    }
}

#[test]
fn a_call_is_known_like_a_message_and_neither_has_no_key() {
    let key = Expr::compile(provider::find("twilio").unwrap().key, &["input"]).unwrap();
    let of = |input: Value| key.eval(&Scope::new().with("input", &input));

    let call = of(json!({ "CallSid": "CA1", "CallStatus": "completed" }));
    let text = of(json!({ "MessageSid": "SM1", "SmsStatus": "received" }));
    let neither = of(json!({ "AccountSid": "AC1", "CallStatus": "completed" }));

    assert_eq!(call.unwrap(), "CA1/completed");
    assert_eq!(text.unwrap(), "SM1/received");
    assert!(neither.is_err());
}

#[test]
fn the_key_stands_where_the_preset_says() {
    for provider in provider::all() {
        let key = Expr::compile(provider.key, &["input", "headers"]).unwrap();
        let roots: Vec<String> = key.references().iter().map(ToString::to_string).collect();
        let expected = |root: &String| match provider.key_source {
            Source::Body => root == "input" || root.starts_with("input."),
            Source::Header(name) => root == &format!("headers.{name}"),
        };
        assert!(roots.iter().all(expected), "{}: {roots:?}", provider.name);
    }
}

#[test]
fn a_newer_delivery_about_the_same_object_has_a_greater_version() {
    for provider in provider::all() {
        let Some(order) = provider.order else {
            continue;
        };
        let sample = sample(provider);
        let stand = |delivery: &Delivery| {
            let version = delivery.eval(order.version);
            let version = match version.as_i64() {
                Some(number) => format!("{number:>20}"),
                None => version.as_str().unwrap().to_owned(),
            };
            (delivery.eval(order.object), version)
        };

        let (object, version) = stand(&sample.first);
        let (object_again, version_again) = stand(&sample.repeat);
        let (object_later, version_later) = stand(&sample.other);

        assert_eq!(object, object_again, "{}", provider.name);
        assert_eq!(version, version_again, "{}", provider.name);
        assert_eq!(object, object_later, "{}", provider.name);
        assert!(version < version_later, "{}", provider.name);
    }
}

#[test]
fn a_signature_is_worked_out_from_what_the_preset_says() {
    for provider in provider::all() {
        let Some(signature) = &provider.signature else {
            assert!(sample(provider).secret.is_none(), "{}", provider.name);
            continue;
        };
        let sample = sample(provider);
        let secret = sample.secret.as_deref().unwrap();
        let call = |delivery: &Delivery| verify::Call {
            method: sample.method.clone(),
            url: sample.url.clone(),
            headers: delivery.headers.clone(),
            body: delivery.body.clone(),
        };

        for delivery in [&sample.first, &sample.repeat, &sample.other] {
            let call = call(delivery);
            assert!(
                verify::is_authentic(signature, secret, &call),
                "{}",
                provider.name
            );
            let mut forged = call.clone();
            forged.body = forged.body.replacen('1', "2", 1);
            assert!(
                !verify::is_authentic(signature, secret, &forged),
                "{}: a changed body passes",
                provider.name
            );
            assert!(
                !verify::is_authentic(signature, "whsec_AAAA", &call),
                "{}: another secret passes",
                provider.name
            );
        }
    }
}

#[test]
fn a_header_is_covered_exactly_where_changing_it_is_noticed() {
    for provider in provider::all() {
        let Some(signature) = &provider.signature else {
            assert!(provider.covers_headers.is_empty(), "{}", provider.name);
            continue;
        };
        let sample = sample(provider);
        let secret = sample.secret.as_deref().unwrap();

        for name in sample.first.headers.keys() {
            if name == signature.header || name == "content-type" {
                continue;
            }
            let mut call = verify::Call {
                method: sample.method.clone(),
                url: sample.url.clone(),
                headers: sample.first.headers.clone(),
                body: sample.first.body.clone(),
            };
            call.headers.insert(name.clone(), "another".to_owned());
            let noticed = !verify::is_authentic(signature, secret, &call);
            let covered = provider.covers_headers.contains(&name.as_str());
            assert_eq!(noticed, covered, "{}: {name}", provider.name);
        }
    }
}

#[test]
fn a_repeat_differs_in_the_payload_only_where_the_preset_says() {
    for provider in provider::all() {
        let sample = sample(provider);
        let mut before = sample.first.input();
        let mut after = sample.repeat.input();

        for path in provider.clock_fields {
            assert!(remove(&mut before, path), "{}: {path}", provider.name);
            remove(&mut after, path);
        }

        assert_eq!(before, after, "{}", provider.name);
    }
}

/// Removes what lies at a path, `*` being each item of a list; whether anything was there.
fn remove(value: &mut Value, path: &str) -> bool {
    match (value, path.split_once('.')) {
        (Value::Array(items), Some(("*", rest))) => items.iter_mut().all(|item| remove(item, rest)),
        (Value::Object(fields), Some((first, rest))) => fields
            .get_mut(first)
            .is_some_and(|inner| remove(inner, rest)),
        (Value::Object(fields), None) => fields.remove(path).is_some(),
        _ => false,
    }
}

#[test]
fn presets_are_found_by_name_and_sorted() {
    let names: Vec<&str> = provider::all().iter().map(|found| found.name).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();

    assert_eq!(names, sorted);
    for name in names {
        assert_eq!(provider::find(name).map(|found| found.name), Some(name));
    }
    assert_eq!(provider::find("strype"), None);
}

#[test]
fn an_unsigned_key_is_recognised() {
    let unsigned: Vec<&str> = provider::all()
        .iter()
        .filter(|provider| !provider.signs_key())
        .map(|provider| provider.name)
        .collect();
    assert_eq!(
        unsigned,
        [
            "cloudevents",
            "github",
            "idempotency-key",
            "linear",
            "shopify",
            "twilio"
        ]
    );
}

#[test]
fn every_preset_has_its_page_and_its_row() {
    let pages = folder("../../docs/presets");
    let overview = std::fs::read_to_string(pages.join("README.md")).unwrap();
    for provider in provider::all() {
        let page = std::fs::read_to_string(pages.join(format!("{}.md", provider.name))).unwrap();
        let title = format!("# {}\n", provider.title);
        assert!(page.starts_with(&title), "{}", provider.name);
        let start = format!("| [{}]({}.md) |", provider.name, provider.name);
        let row = overview.lines().find(|line| line.starts_with(&start));
        let days = provider.redelivery.unwrap().as_millis() / 86_400_000;
        let signed = if provider.signs_key() {
            "| yes |"
        } else {
            "no"
        };
        for said in [format!("| {days} d |"), signed.to_owned()] {
            assert!(row.unwrap().contains(&said), "{}: {said}", provider.name);
        }
        for said in [provider.key.to_owned(), redelivery(provider)] {
            assert!(page.contains(&said), "{}: {said}", provider.name);
        }
    }
}

fn redelivery(provider: &Provider) -> String {
    let span = provider.redelivery.unwrap();
    format!("| redelivery | `{span}` |")
}
