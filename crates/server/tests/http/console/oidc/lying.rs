//! A provider that lies: nobody gets in, and nothing that is secret is logged.

use anyhow::{Context, Result, ensure};
use aws_lc_rs::signature::KeyPair as _;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use super::liar::{Liar, edit, parameter};
use super::traveller::{Shown, Traveller};
use crate::log::Log;

/// Without this, every refusal below could have another cause.
#[tokio::test]
async fn the_fake_is_believed_while_it_tells_the_truth() -> Result<()> {
    let liar = Liar::start().await?;

    let (_, shown) = liar
        .attempt(|nonce| liar.sign("k", &liar.claims(nonce)))
        .await?;

    assert_eq!(shown.url, format!("{}/console/main/runs", liar.base()));
    assert_eq!(
        (shown.status, liar.count_sign_ins().await?),
        (200, 1),
        "{}",
        shown.text
    );
    Ok(())
}

/// A link on a page of others could end or change the sign-in of who follows it.
#[tokio::test]
async fn a_page_of_others_leads_nobody_to_the_provider() -> Result<()> {
    let liar = Liar::start().await?;
    for quiet in ["", "quiet=yes&"] {
        let start = format!("/console/sign-in/oidc?{quiet}to=%2Fconsole%2Fmain%2F");
        let from = [("sec-fetch-site", "cross-site")];
        let answer = liar
            .world
            .bare
            .send(hyper::Method::GET, &start, &from, String::new().into())
            .await?;

        let to = answer.header("location");
        assert_eq!(to, Some("/console/sign-in?to=%2Fconsole%2Fmain%2F"));
        assert_eq!(answer.header("set-cookie"), None, "no sign-in was begun");
    }
    Ok(())
}

#[tokio::test]
async fn no_lie_signs_anybody_in_and_no_secret_is_logged() -> Result<()> {
    let log = Log::default();
    // The server runs on the thread of the test.
    let _heard = tracing::subscriber::set_default(log.clone());
    let liar = Liar::start().await?;
    let now = liar.world.engine.now().as_second();
    let lies = [
        ("another client", json!({ "aud": "other" })),
        ("several clients", json!({ "aud": ["semel", "other"] })),
        ("asked by another", json!({ "azp": "other" })),
        ("another issuer", json!({ "iss": "https://evil.example" })),
        (
            "almost the issuer",
            json!({ "iss": format!("{}/", edit(&liar.script, |it| it.issuer.clone())) }),
        ),
        ("expired", json!({ "exp": now - 61, "iat": now - 400 })),
        ("from the future", json!({ "iat": now + 120 })),
        ("of no sign-in", json!({ "nonce": null })),
        ("of nobody", json!({ "sub": "" })),
    ];
    for (lie, changed) in lies {
        let told = |nonce: &str| {
            let mut claims = liar.claims(nonce);
            for (name, value) in changed.as_object().context("claims")? {
                claims[name] = value.clone();
            }
            liar.sign("k", &claims)
        };
        expect_refused(&liar, lie, liar.attempt(told).await?).await?;
    }
    let replayed = liar.claims("the nonce of an earlier sign-in");
    expect_refused(
        &liar,
        "replayed",
        liar.attempt(|_| liar.sign("k", &replayed)).await?,
    )
    .await?;
    let unsigned = |nonce: &str| {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let head = part(&json!({ "alg": "none", "kid": "k" }));
        Ok(format!("{head}.{}.", part(&liar.claims(nonce))))
    };
    expect_refused(&liar, "not signed", liar.attempt(unsigned).await?).await?;
    for secret in [
        liar.jwk("k").to_string().into_bytes(),
        liar.key.public_key().as_ref().to_vec(),
    ] {
        let with_public_key = |nonce: &str| {
            let mut header = Header::new(Algorithm::HS256);
            header.kid = Some("k".to_owned());
            Ok(encode(
                &header,
                &liar.claims(nonce),
                &EncodingKey::from_secret(&secret),
            )?)
        };
        expect_refused(
            &liar,
            "the public key as a secret",
            liar.attempt(with_public_key).await?,
        )
        .await?;
    }
    let foreign = Liar::start().await?;
    let swapped = |nonce: &str| foreign.sign("k", &liar.claims(nonce));
    expect_refused(
        &liar,
        "a foreign key of the same name",
        liar.attempt(swapped).await?,
    )
    .await?;
    let unknown = |nonce: &str| liar.sign("other", &liar.claims(nonce));
    expect_refused(
        &liar,
        "a name that no key has",
        liar.attempt(unknown).await?,
    )
    .await?;

    let text = log.text();
    ensure!(
        text.contains("identity-invalid"),
        "something is logged: {text}"
    );
    for secret in ["hush", "eyJ", "nonce=", "state="] {
        ensure!(!text.contains(secret), "{secret}: {text}");
    }
    Ok(())
}

async fn expect_refused(
    liar: &Liar,
    lie: &str,
    (browser, shown): (Traveller, Shown),
) -> Result<()> {
    ensure!(
        shown.status == 403 && shown.text.contains("identity-invalid"),
        "{lie}: {}",
        shown.text
    );
    ensure!(
        browser.cookie(&liar.base(), "semel_dev").is_none(),
        "{lie}: a cookie"
    );
    ensure!(
        browser.cookie(&liar.base(), "semel_dev_oidc").is_none(),
        "{lie}: it can be tried again"
    );
    ensure!(liar.count_sign_ins().await? == 0, "{lie}: signed in");
    Ok(())
}

#[tokio::test]
async fn a_sign_in_ends_in_the_browser_that_began_it_and_once() -> Result<()> {
    let liar = Liar::start().await?;
    let (mut victim, of_victim) = liar.begin().await?;
    let (mut attacker, of_attacker) = liar.begin().await?;
    let good = liar.sign("k", &liar.claims(&parameter(&of_attacker, "nonce")?))?;
    edit(&liar.script, |script| script.token = good);
    let state = parameter(&of_attacker, "state")?;

    let mut without = Traveller::new();
    for (what, browser) in [
        ("another's cookie", &mut victim.clone()),
        ("no cookie", &mut without),
    ] {
        let shown = liar.come_back(browser, &state).await?;
        ensure!(
            shown.status == 400 && shown.text.contains("sign-in-expired"),
            "{what}: {}",
            shown.text
        );
    }
    let crossed = liar
        .come_back(&mut victim, &parameter(&of_victim, "state")?)
        .await?;
    ensure!(
        crossed.text.contains("identity-invalid"),
        "a code of another sign-in: {}",
        crossed.text
    );
    ensure!(liar.count_sign_ins().await? == 0, "nobody is in");

    let first = liar.come_back(&mut attacker, &state).await?;
    ensure!(first.status == 200, "{}", first.text);
    let mut again = Traveller::new();
    let again = liar.come_back(&mut again, &state).await?;
    ensure!(again.status == 400, "{}", again.text);
    Ok(())
}

#[tokio::test]
async fn a_provider_that_fails_is_named_and_costs_little() -> Result<()> {
    let https = json!({
        "issuer": "ISSUER", "authorization_endpoint": "http://evil.example/auth",
        "token_endpoint": "ISSUER/token", "jwks_uri": "ISSUER/keys",
    });
    for (what, said, is_silent, named) in [
        ("huge", Some("x".repeat(2 << 20)), false, "more than"),
        ("slow", None, true, "no answer within 5 s"),
        ("no document", Some("<html>".to_owned()), false, "not JSON"),
        (
            "of another",
            Some(https.to_string().replace("ISSUER", "http://127.0.0.1:1")),
            false,
            "calls itself",
        ),
        (
            "in the clear",
            Some(https.to_string()),
            false,
            "without https",
        ),
    ] {
        let liar = Liar::start().await?;
        edit(&liar.script, |script| {
            script.configuration = said.map(|said| said.replace("ISSUER", &script.issuer));
            script.is_silent = is_silent;
        });

        let page = liar.world.bare.get("/console/sign-in/oidc").await?;

        let text = page.text();
        ensure!(
            page.status == 502 && text.contains("provider-unavailable"),
            "{what}: {text}"
        );
        ensure!(
            text.contains(named) && text.contains("semel open"),
            "{what}: {text}"
        );
    }
    Ok(())
}

/// A provider that says so names itself in what it grants (RFC 9207). A refusal lets nobody in anyway.
#[tokio::test]
async fn a_code_of_a_nameless_or_another_sender_is_not_used() -> Result<()> {
    let liar = Liar::start().await?;
    let issuer = edit(&liar.script, |script| script.issuer.clone());
    let says = json!({
        "issuer": issuer, "authorization_endpoint": format!("{issuer}/auth"),
        "token_endpoint": format!("{issuer}/token"), "jwks_uri": format!("{issuer}/keys"),
        "authorization_response_iss_parameter_supported": true,
    });
    edit(&liar.script, |it| it.configuration = Some(says.to_string()));
    let own = format!("code=c&iss={issuer}");
    for (response, named, sign_ins) in [
        ("code=c", "identity-invalid", 0),
        ("code=c&iss=https://evil.example", "identity-invalid", 0),
        ("error=no&iss=https://evil.example", "identity-invalid", 0),
        ("error=no", "provider-refused", 0),
        (own.as_str(), "Mallory (mallory)", 1),
    ] {
        let (mut browser, to) = liar.begin().await?;
        let token = liar.sign("k", &liar.claims(&parameter(&to, "nonce")?))?;
        edit(&liar.script, |script| script.token = token);
        let state = parameter(&to, "state")?;
        let back = format!("{}/console/sign-in/oidc/callback", liar.base());
        let shown = browser
            .go(&format!("{back}?{response}&state={state}"))
            .await?;

        ensure!(shown.text.contains(named), "{response}: {}", shown.text);
        assert_eq!(liar.count_sign_ins().await?, sign_ins, "{response}");
    }
    Ok(())
}

#[tokio::test]
async fn unknown_keys_are_looked_for_once_a_minute() -> Result<()> {
    let liar = Liar::start().await?;
    for _ in 0..5 {
        liar.attempt(|nonce| liar.sign("other", &liar.claims(nonce)))
            .await?;
    }

    assert_eq!(edit(&liar.script, |script| script.keys_read), 1);
    Ok(())
}

#[tokio::test]
async fn what_the_provider_says_is_shown_as_text_and_cut() -> Result<()> {
    let liar = Liar::start().await?;
    let (mut browser, to) = liar.begin().await?;
    let words: String = format!("<b>no</b>{}", "x".repeat(5_000));
    let words: String = url::form_urlencoded::byte_serialize(words.as_bytes()).collect();
    let url = format!(
        "{}/console/sign-in/oidc/callback?error=access_denied&error_description={words}&state={}",
        liar.base(),
        parameter(&to, "state")?
    );

    let shown = browser.go(&url).await?;

    assert_eq!(shown.status, 403);
    assert!(
        shown.text.contains("access_denied: &#60;b&#62;no") && shown.text.len() < 5_000,
        "{}",
        shown.text
    );
    Ok(())
}

#[tokio::test]
async fn a_logout_token_works_once_and_an_identity_is_none() -> Result<()> {
    let liar = Liar::start().await?;
    liar.attempt(|nonce| liar.sign("k", &liar.claims(nonce)))
        .await?;
    let mut claims = liar.claims("n");
    let identity = liar.sign("k", &claims)?;
    claims["events"] = json!({ "http://schemas.openid.net/event/backchannel-logout": {} });
    claims["jti"] = json!("j1");
    let with_nonce = liar.sign("k", &claims)?;
    claims.as_object_mut().context("claims")?.remove("nonce");
    let good = liar.sign("k", &claims)?;
    let forged = Liar::start().await?.sign("k", &claims)?;

    for refused in [identity, with_nonce, forged, String::new()] {
        assert_eq!(liar.log_out(&refused).await?, 400);
    }
    assert_eq!(liar.count_sign_ins().await?, 1, "still in");
    assert_eq!(liar.log_out(&good).await?, 200);
    assert_eq!(liar.count_sign_ins().await?, 0, "out");
    assert_eq!(liar.log_out(&good).await?, 400, "used up");
    Ok(())
}

/// A browser may open several pages at once, and all of them are due.
#[tokio::test]
async fn renewals_of_one_browser_at_the_same_time_are_one() -> Result<()> {
    let liar = Liar::start().await?;
    let start = async |quiet: &str, cookie: &str| {
        let path = format!("/console/sign-in/oidc?quiet={quiet}");
        let headers = [("cookie", cookie)];
        let sent = liar
            .world
            .bare
            .send(hyper::Method::GET, &path, &headers, "".into());
        let answer = sent.await?;
        let refresh = answer.header("refresh");
        let refresh = refresh.and_then(|refresh| refresh.strip_prefix("0; url="));
        let to = answer.header("location").or(refresh);
        let to = url::Url::parse(to.context("an address")?)?;
        let cookie = answer.header("set-cookie").context("a cookie")?;
        let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        anyhow::Ok((parameter(&to, "state")?, cookie))
    };

    let (first, cookie) = start("yes", "").await?;
    let (second, _) = start("yes", &cookie).await?;
    let (asked, _) = start("no", &cookie).await?;

    assert_eq!(first, second);
    assert_ne!(
        first, asked,
        "a sign-in that a person begins is another one"
    );
    Ok(())
}
