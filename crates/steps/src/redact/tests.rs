//! What comes back is looked for in every form.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use semel_model::{Doubt, Fault, Outcome, Receipt, SecretText};
use serde_json::json;

use super::*;

const SECRET: &str = "sk_live/9+\"q\\é~7?>x";

fn redactor() -> Redactor {
    let secret = SecretText::new(SECRET.to_owned());
    Redactor::of([("stripe", &secret)])
}

fn redacted(text: &str) -> String {
    let mut text = text.to_owned();
    redactor().redact_text(&mut text);
    text
}

#[test]
fn a_secret_is_found_in_every_form() {
    let form: String = url::form_urlencoded::byte_serialize(SECRET.as_bytes()).collect();
    let percent: String = SECRET.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let mut forms = vec![
        SECRET.to_owned(),
        form,
        percent,
        hex::encode(SECRET),
        hex::encode_upper(SECRET),
        json!(SECRET).to_string(),
        json!(SECRET)
            .to_string()
            .replace('/', "\\/")
            .replace('é', "\\u00e9"),
    ];
    for before in ["", "u", "us", "use", "user:"] {
        for after in ["", "x", "xy"] {
            let text = format!("{before}{SECRET}{after}");
            forms.extend([STANDARD.encode(&text), URL_SAFE.encode(&text)]);
        }
    }
    for form in forms {
        let text = redacted(&format!("you sent `{form}`, which"));

        assert!(text.contains("[secret stripe]"), "{form}: {text}");
        assert!(text.starts_with("you sent `") && text.ends_with("`, which"));
    }
}

#[test]
fn base64_keeps_at_most_what_its_neighbours_share() {
    let text = redacted(&STANDARD.encode(format!("user:{SECRET}")));

    let left = text.replace("[secret stripe]", "").len();
    assert!(left <= "user:".len() * 8 / 6 + 6, "{text}");
}

#[test]
fn every_text_and_every_name_of_an_answer_is_looked_at() {
    let outcome = Outcome::Done(Receipt::new(
        json!({"json": {SECRET: [SECRET, {"deep": format!("a {SECRET} b")}], "id": 7}}),
        Some(200),
    ));

    let Outcome::Done(receipt) = redactor().redact(outcome) else {
        panic!("an outcome stays what it is")
    };

    let mark = "[secret stripe]";
    let expected = json!({"json": {mark: [mark, {"deep": format!("a {mark} b")}], "id": 7}});
    assert_eq!(receipt.response, expected);
}

#[test]
fn faults_and_doubts_are_looked_at() {
    let failed = redactor().redact(Outcome::Failed(Fault::permanent(SECRET, SECRET)));
    let doubted = redactor().redact(Outcome::InDoubt(Doubt::new(SECRET, SECRET)));

    for told in [format!("{failed:?}"), format!("{doubted:?}")] {
        assert!(!told.contains("sk_live"), "{told}");
    }
}

#[test]
fn a_short_secret_is_not_looked_for() {
    let secret = SecretText::new("seven77".to_owned());
    let mut text = "seven77 and the rest".to_owned();

    Redactor::of([("short", &secret)]).redact_text(&mut text);

    assert_eq!(text, "seven77 and the rest");
}

#[test]
fn a_secret_of_digits_is_found_as_a_number() {
    let secret = SecretText::new("1234567890".to_owned());
    let mut value = json!({"pin": 1_234_567_890});

    Redactor::of([("pin", &secret)]).redact_value(&mut value);

    assert_eq!(value, json!({"pin": "[secret pin]"}));
}

#[test]
fn each_line_of_a_private_key_is_found() {
    let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n";
    let secret = SecretText::new(key.to_owned());
    let redactor = Redactor::of([("tls", &secret)]);
    let mut whole = format!("got {key}");
    let mut line = "line 2 is hkiG9w0BAQEFAASC".to_owned();

    redactor.redact_text(&mut whole);
    redactor.redact_text(&mut line);

    assert!(!whole.contains("MIIE"), "{whole}");
    assert_eq!(line, "line 2 is [secret tls]");
}
