//! What is believed, and what is not.

use serde_json::json;

use super::*;

const NOW: i64 = 1_700_000_000;

fn options() -> OidcOptions {
    OidcOptions::new("https://id.example", "semel").unwrap()
}

fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

/// Claims that are believed, with some changed.
fn claims(changes: Value) -> Claims {
    let mut claims = json!({
        "iss": "https://id.example", "aud": "semel", "sub": "u1", "nonce": "n",
        "iat": NOW - 10, "exp": NOW + 300,
    });
    for (name, value) in changes.as_object().unwrap() {
        match value.is_null() {
            true => claims.as_object_mut().unwrap().remove(name),
            false => claims
                .as_object_mut()
                .unwrap()
                .insert(name.clone(), value.clone()),
        };
    }
    claims.as_object().unwrap().clone()
}

fn identity(changes: Value) -> Result<String, ProviderError> {
    check_identity(&claims(changes), &options(), "n", now())
}

#[test]
fn an_identity_of_this_issuer_for_this_client_and_this_sign_in_is_believed() {
    for good in [
        json!({}),
        json!({ "aud": ["semel"] }),
        json!({ "aud": ["semel", "other"], "azp": "semel" }),
        json!({ "azp": "semel" }),
        json!({ "exp": NOW - 59 }),
        json!({ "iat": NOW + 60 }),
        json!({ "exp": NOW as f64 + 0.5 }),
    ] {
        assert_eq!(identity(good.clone()).unwrap(), "u1", "{good}");
    }
}

#[test]
fn anything_else_is_not() {
    for bad in [
        json!({ "iss": "https://id.example/" }),
        json!({ "iss": null }),
        json!({ "aud": "other" }),
        json!({ "aud": ["semel", "other"] }),
        json!({ "aud": ["semel", "other"], "azp": "other" }),
        json!({ "azp": "other" }),
        json!({ "azp": 7 }),
        json!({ "aud": null }),
        json!({ "aud": { "semel": true } }),
        json!({ "nonce": "m" }),
        json!({ "nonce": null }),
        json!({ "exp": NOW - 60 }),
        json!({ "exp": null }),
        json!({ "exp": "soon" }),
        json!({ "iat": NOW + 61 }),
        json!({ "iat": null }),
        json!({ "nbf": NOW + 61 }),
        json!({ "sub": "" }),
        json!({ "sub": " " }),
        json!({ "sub": null }),
        json!({ "sub": 7 }),
        json!({ "sub": "u\u{202e}1" }),
        json!({ "sub": "u".repeat(256) }),
    ] {
        assert!(identity(bad.clone()).is_err(), "{bad}");
    }
}

#[test]
fn a_logout_token_says_so_is_fresh_and_has_an_identity() {
    let event = json!({ "http://schemas.openid.net/event/backchannel-logout": {} });
    let of = |changes: Value| {
        let mut base = json!({ "nonce": null, "jti": "j", "events": event });
        for (name, value) in changes.as_object().unwrap() {
            base[name] = value.clone();
        }
        check_logout(&claims(base), &options(), now())
    };

    let logout = of(json!({})).unwrap();

    let subject = "u1".to_owned();
    assert_eq!(logout.ended, LogoutScope::Person { subject });
    assert_eq!(logout.id, "j");
    for bad in [
        json!({ "nonce": "n" }),
        json!({ "jti": null }),
        json!({ "events": null }),
        json!({ "events": { "other": {} } }),
        json!({ "iat": NOW - 361 }),
        json!({ "aud": "other" }),
        json!({ "sub": null }),
        json!({ "sub": null, "sid": "" }),
        json!({ "sub": null, "sid": 7 }),
        json!({ "sub": "", "sid": "s" }),
    ] {
        assert!(of(bad.clone()).is_err(), "{bad}");
    }
    let (subject, session) = ("u1".to_owned(), "s".to_owned());
    let alone = of(json!({ "sub": null, "sid": "s" })).unwrap().ended;
    let both = of(json!({ "sid": "s" })).unwrap().ended;
    assert_eq!(
        alone,
        LogoutScope::Session {
            session: session.clone()
        }
    );
    assert_eq!(both, LogoutScope::SessionOf { subject, session });
}

#[test]
fn a_person_is_called_by_the_first_name_that_can_be_shown() {
    let named = |changes: Value| describe(&claims(changes), "u1".to_owned(), &options()).name;

    assert_eq!(named(json!({ "name": "Ada  Lovelace\n" })), "Ada Lovelace");
    assert_eq!(
        named(json!({ "name": "\u{202e} \u{200b}", "email": "ada@x" })),
        "ada@x"
    );
    assert_eq!(named(json!({ "preferred_username": "ada" })), "ada");
    assert_eq!(named(json!({})), "u1");
    assert_eq!(
        named(json!({ "name": "x".repeat(500) })).len(),
        NAME_CHARS_MAX
    );
}

#[test]
fn groups_are_texts_and_bounded() {
    let of = |value: Value| groups(Some(&value));

    assert_eq!(
        of(json!(["ops", "", " x", "a\u{0}", 7, "ops", "/dev"])),
        ["ops", "/dev"]
    );
    assert_eq!(of(json!("ops")), ["ops"]);
    assert!(of(json!({ "ops": true })).is_empty());
    let many: Vec<String> = (0..600).map(|n| n.to_string()).collect();
    assert_eq!(of(json!(many)).len(), GROUPS_MAX);
}
