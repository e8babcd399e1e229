//! Signatures and tokens that an author describes.

use super::*;

fn described(webhook: &str, headers: &[(&str, &str)], body: &str) -> Request {
    let headers = headers.iter();
    Request {
        auth: auth(webhook),
        secrets: vec!["hush".to_owned()],
        headers: headers
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        url: "https://semel.example/hooks/acme/shop".to_owned(),
        body: body.as_bytes().to_vec(),
        now: Timestamp::from_second(1_767_261_600).unwrap(),
    }
}

fn mac(algorithm: hmac::Algorithm, text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(algorithm, b"hush"), text.as_bytes())
}

#[test]
fn a_signature_over_the_body_is_enough() {
    let tag = mac(hmac::HMAC_SHA256, "{}");
    let value = format!("sha256={}", hex::encode(tag.as_ref()));
    let webhook =
        r#"{ auth: { hmac: { header: X-Shop, prefix: "sha256=" } }, secret: s, key: input.id }"#;

    let request = described(webhook, &[("x-shop", &value)], "{}");

    assert_eq!(request.judge(), Ok(()));
    let upper = format!("sha256={}", hex::encode_upper(tag.as_ref()));
    assert_eq!(request.with(|it| it.set("x-shop", &upper)), Ok(()));
    let bare = hex::encode(tag.as_ref());
    assert_eq!(
        request.with(|it| it.set("x-shop", &bare)),
        Err(VerifyError::Unfit)
    );
}

#[test]
fn covered_headers_and_the_time_stand_before_the_body_with_dots_between() {
    let webhook = "{ auth: { hmac: { header: x-shop, algorithm: sha512, encoding: base64, \
        timestamp: x-time, tolerance: 1m, covers: [X-Id, x-kind] } }, secret: s, key: 'headers[\"x-id\"]' }";
    let tag = mac(hmac::HMAC_SHA512, "id-1.paid.1767261600.{}");
    let value = STANDARD.encode(tag.as_ref());
    let headers = [
        ("x-shop", value.as_str()),
        ("x-id", "id-1"),
        ("x-kind", "paid"),
        ("x-time", "1767261600"),
    ];

    let request = described(webhook, &headers, "{}");

    assert_eq!(request.judge(), Ok(()));
    let late = SignedDuration::from_secs(61);
    assert_eq!(
        request.with(|it| it.now += late),
        Err(VerifyError::Untimely)
    );
    let other = request.with(|it| it.set("x-id", "id-2"));
    assert_eq!(other, Err(VerifyError::Unfit));
    // The same bytes, cut at another dot.
    let shifted = request.with(|it| {
        it.set("x-id", "id-1.paid");
        it.set("x-kind", "1767261600");
    });
    assert_eq!(shifted, Err(VerifyError::Incomplete));
    for time in ["", "-1", "+1767261600", "1767261600.0", " 1767261600"] {
        assert!(request.with(|it| it.set("x-time", time)).is_err(), "{time}");
    }
}

#[test]
fn a_token_is_one_of_the_secrets() {
    let webhook = "{ auth: { token: { header: X-Token } }, secret: s, key: input.id }";
    let request = described(webhook, &[("x-token", "hush")], "{}");

    assert_eq!(request.judge(), Ok(()));
    let former = vec!["new".to_owned(), "hush".to_owned()];
    assert_eq!(request.with(|it| it.secrets = former), Ok(()));
    for (value, error) in [
        ("hus", VerifyError::Unfit),
        ("hushh", VerifyError::Unfit),
        ("", VerifyError::Incomplete),
    ] {
        assert_eq!(request.with(|it| it.set("x-token", value)), Err(error));
    }
    assert_eq!(
        request.with(|it| it.headers.clear()),
        Err(VerifyError::Incomplete)
    );
    assert_eq!(
        request.with(|it| it.secrets.clear()),
        Err(VerifyError::NoSecret)
    );
    let empty = request.with(|it| {
        it.secrets = vec![String::new()];
        it.set("x-token", "");
    });
    assert_eq!(empty, Err(VerifyError::Incomplete));
}

#[test]
fn a_token_in_authorization_stands_behind_bearer() {
    let webhook = "{ auth: { token: {} }, secret: s, key: input.id }";
    let request = described(webhook, &[("authorization", "Bearer hush")], "{}");

    assert_eq!(request.judge(), Ok(()));
    let lower = request.with(|it| it.set("authorization", "bearer hush"));
    assert_eq!(lower, Ok(()));
    let bare = request.with(|it| it.set("authorization", "hush"));
    assert_eq!(bare, Err(VerifyError::Incomplete));
}
