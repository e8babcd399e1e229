//! Signing in and out: codes work once, cookies end with their token, and forms come from here.

use std::time::Duration;

use anyhow::{Context, Result};
use hyper::Method;
use semel_api::types::{RevokeToken, UploadResource};
use semel_api::{Client, Code};
use semel_model::{ResourceRef, Right};
use semel_store::clock;
use semel_testkit::until_some;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{Browser, encode, hidden};
use crate::world::{World, add_token_with};

#[tokio::test]
async fn a_code_signs_in_once_and_a_get_uses_nothing_up() -> Result<()> {
    let world = World::start().await?;
    let minted = world.client.make_sign_in_code().await?;
    let (mut browser, mut other) = (Browser::new(&world), Browser::new(&world));

    let shown = browser.get("/console/sign-in").await?;
    let with_code = browser
        .get(&format!("/console/sign-in?code={}", minted.code))
        .await?;
    let first = browser.sign_in(&minted.code).await?;
    let again = other.sign_in(&minted.code).await?;

    assert_eq!(
        (shown.status.as_u16(), with_code.status.as_u16()),
        (200, 200)
    );
    assert!(
        with_code.header("set-cookie").is_none(),
        "a GET signs nobody in"
    );
    assert_eq!(
        (first.status.as_u16(), first.header("location")),
        (303, Some("/console/main/"))
    );
    let cookie = first.header("set-cookie").context("a cookie")?;
    assert!(cookie.starts_with("semel_dev="), "{cookie}");
    assert!(
        cookie.ends_with("; Path=/; Max-Age=604800; HttpOnly; SameSite=Lax"),
        "{cookie}"
    );
    assert_eq!(again.status, 400);
    assert!(again.header("set-cookie").is_none() && again.text().contains("semel open"));
    assert!(
        browser
            .page("/console/main/")
            .await?
            .contains("Nothing waits for you.")
    );
    assert_eq!(minted.path, format!("/console/sign-in#{}", minted.code));
    Ok(())
}

#[tokio::test]
async fn a_code_works_for_a_minute_and_what_is_stored_opens_nothing() -> Result<()> {
    let world = World::start().await?;
    let code = world.client.make_sign_in_code().await?.code;
    let client = world.database.connect().await?;
    let stored = "SELECT encode(digest, 'hex') FROM sign_in_codes";
    let stored: String = client.query_one(stored, &[]).await?.get(0);
    let mut browser = Browser::new(&world);

    assert_eq!(browser.sign_in(&stored).await?.status, 400);
    assert_eq!(browser.sign_in("").await?.status, 400);
    clock::move_ahead(world.engine.cell(), Duration::from_secs(61)).await?;
    let late = browser.sign_in(&code).await?;

    assert_eq!(late.status, 400, "{}", late.text());
    Ok(())
}

#[tokio::test]
async fn a_sign_in_ends_unused_or_after_a_week_or_when_it_is_left() -> Result<()> {
    let world = World::start().await?;
    let idle = Browser::signed_in(&world).await?;
    let left = Browser::signed_in(&world).await?;
    let page = left.page("/console/main/").await?;
    let token = hidden(&page, "form")?;

    let out = left
        .post("/console/main/sign-out", &[("form", &token)])
        .await?;
    let after = left.get("/console/main/").await?;

    assert_eq!(out.status, 303);
    let cookie = out.header("set-cookie").context("a cookie")?;
    assert!(
        cookie.starts_with("semel_dev=; Path=/; Max-Age=0"),
        "{cookie}"
    );
    let to_sign_in = Some("/console/sign-in?to=%2Fconsole%2Fmain%2F");
    assert_eq!(
        (after.status.as_u16(), after.header("location")),
        (303, to_sign_in)
    );
    // Tokens of this test work for an hour, so the clock moves only for the sign-in.
    let client = world.database.connect().await?;
    let aged = "UPDATE sign_ins SET seen_at = moment() - interval '12 hours'";
    for change in [
        aged,
        "UPDATE sign_ins SET seen_at = moment(), expires_at = moment()",
    ] {
        client.batch_execute(change).await?;
        until_some("the sign-in to end", async || {
            let status = idle.get("/console/main/").await?.status;
            Ok((status == 303).then_some(()))
        })
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn signing_in_again_ends_what_the_browser_had() -> Result<()> {
    let world = World::start().await?;
    let mut browser = Browser::signed_in(&world).await?;
    let before = browser.clone();
    let code = world.client.make_sign_in_code().await?.code;

    let again = browser.sign_in(&code).await?;

    assert_eq!(again.status, 303);
    assert_eq!(browser.get("/console/main/").await?.status, 200);
    assert_eq!(before.get("/console/main/").await?.status, 303);
    Ok(())
}

#[tokio::test]
async fn a_revoked_token_ends_its_sign_ins() -> Result<()> {
    let world = World::start().await?;
    let token = add_token_with(world.engine.cell(), "lost", Right::Read.into()).await?;
    let client = Client::new(world.client.base(), &token)?;
    let browser = Browser::signed_in_as(&world, &client).await?;
    let code = client.make_sign_in_code().await?.code;
    browser.page("/console/main/").await?;
    let tokens = world.client.list_tokens(&Default::default()).await?.items;
    let lost = tokens.iter().find(|it| it.name == "lost").context("it")?;

    world
        .client
        .revoke_token(lost.id, &RevokeToken::default(), "r")
        .await?;

    assert_eq!(
        browser.get("/console/main/").await?.status,
        303,
        "at once on this server"
    );
    let again = Browser::new(&world).sign_in(&code).await?;
    assert_eq!(again.status, 400, "its codes end with it");
    Ok(())
}

#[tokio::test]
async fn a_form_of_another_origin_or_without_its_token_changes_nothing() -> Result<()> {
    let world = World::start().await?;
    let browser = Browser::signed_in(&world).await?;
    let other = Browser::signed_in(&world).await?;
    let token = hidden(&browser.page("/console/main/").await?, "form")?;
    let foreign = hidden(&other.page("/console/main/").await?, "form")?;
    let own = format!("http://{}", world.address);
    let out = "/console/main/sign-out";
    let right = encode(&[("form", &token)]);

    for (headers, body) in [
        (vec![], right.clone()),
        (vec![("origin", "https://evil.example")], right.clone()),
        (vec![("origin", "null")], right.clone()),
        (vec![("sec-fetch-site", "cross-site")], right.clone()),
        (
            vec![("sec-fetch-site", "cross-site"), ("origin", &own)],
            right.clone(),
        ),
        (vec![("origin", &own)], encode(&[("form", &foreign)])),
        (vec![("origin", &own)], encode(&[("form", "")])),
        (vec![("origin", &own)], String::new()),
    ] {
        let refused = browser.send(Method::POST, out, &headers, body).await?;
        assert_eq!(refused.status, 403, "{headers:?}");
        assert!(refused.text().contains(Code::FormRefused.as_str()));
    }
    assert_eq!(
        browser.get("/console/main/").await?.status,
        200,
        "still signed in"
    );
    let code = world.client.make_sign_in_code().await?.code;
    let crossed = [("origin", "https://evil.example")];
    let nobody = Browser::new(&world);
    let crossed = nobody.send(
        Method::POST,
        "/console/sign-in",
        &crossed,
        encode(&[("code", &code)]),
    );
    assert_eq!(
        crossed.await?.status,
        403,
        "nobody is signed in by another site"
    );
    assert_eq!(Browser::new(&world).sign_in(&code).await?.status, 303);
    Ok(())
}

#[tokio::test]
async fn the_api_reads_no_cookie_and_the_console_no_token() -> Result<()> {
    let world = World::start().await?;
    let browser = Browser::signed_in(&world).await?;

    let api = browser.get("/v1/runs").await?;
    let bearer = format!("Bearer {}", world.token);
    let headers = [("authorization", bearer.as_str())];
    let page = world
        .bare
        .send(Method::GET, "/console/main/", &headers, "".into())
        .await?;
    let foreign = browser.get("/console/elsewhere/").await?;

    assert_eq!(api.status, 401);
    assert_eq!(page.status, 303);
    assert_eq!(foreign.status, 404, "another namespace looks like none");
    Ok(())
}

#[tokio::test]
async fn a_name_that_somebody_else_controls_leads_to_no_console() -> Result<()> {
    let world = World::start().await?;
    let code = world.client.make_sign_in_code().await?.code;
    let host = [("host", "evil.example"), ("origin", "http://evil.example")];
    // The test's client names its own host first, so the request is written by hand.
    let body = encode(&[("code", &code)]);
    let answer = raw(&world, &host, &body).await?;

    assert!(answer.starts_with("HTTP/1.1 421"), "{answer}");
    assert_eq!(
        Browser::new(&world).sign_in(&code).await?.status,
        303,
        "it was not used up"
    );
    Ok(())
}

async fn raw(world: &World, headers: &[(&str, &str)], body: &str) -> Result<String> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(world.address).await?;
    let mut text = "POST /console/sign-in HTTP/1.1\r\nconnection: close\r\n".to_owned();
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
    stream.write_all(text.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn every_response_says_what_a_browser_may_do_with_it() -> Result<()> {
    let world = World::start().await?;
    let browser = Browser::signed_in(&world).await?;

    for path in [
        "/console/main/",
        "/console/sign-in",
        "/console/main/none",
        "/console/console.js",
    ] {
        let answer = browser.get(path).await?;
        let header = |name: &str| answer.header(name).unwrap_or_default().to_owned();

        let policy = header("content-security-policy");
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "form-action 'self'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{path}");
        assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(header("referrer-policy"), "no-referrer", "{path}");
        assert_eq!(
            header("cross-origin-opener-policy"),
            "same-origin",
            "{path}"
        );
        assert_eq!(
            header("cross-origin-resource-policy"),
            "same-origin",
            "{path}"
        );
        assert!(!header("cache-control").is_empty(), "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn signing_in_is_in_the_audit_record() -> Result<()> {
    let world = World::start().await?;
    Browser::signed_in(&world).await?;

    let acts = world.client.list_audit(&Default::default()).await?.items;

    let act = acts.iter().find(|act| act.action == "console.sign-in");
    assert_eq!(act.context("the act")?.actor, "token:test");
    let shown = serde_json::to_value(world.client.make_sign_in_code().await?)?;
    assert!(matches!(&shown["code"], Value::String(code) if code.len() == 43));
    Ok(())
}

/// A link on a page of others could carry their code.
#[tokio::test]
async fn a_code_is_sent_by_itself_only_where_the_address_was_opened_by_itself() -> Result<()> {
    let world = World::start().await?;
    let (nobody, somebody) = (Browser::new(&world), Browser::signed_in(&world).await?);
    let by_itself = async |browser: &Browser<'_>, site: &str| {
        let headers = [("sec-fetch-site", site)];
        let page = browser.send(Method::GET, "/console/sign-in", &headers, String::new());
        anyhow::Ok(page.await?.text().contains("data-by-itself"))
    };

    assert!(by_itself(&nobody, "none").await?);
    assert!(!by_itself(&nobody, "cross-site").await?);
    assert!(!by_itself(&nobody, "same-site").await?);
    assert!(!by_itself(&somebody, "none").await?);
    Ok(())
}

/// Somebody uploads a file that calls itself an error, or a script.
#[tokio::test]
async fn a_file_is_bytes_whatever_it_calls_itself() -> Result<()> {
    let world = World::start().await?;
    let browser = Browser::signed_in(&world).await?;
    for kind in [
        "application/problem+json",
        "text/javascript",
        "application/json",
    ] {
        let bytes = format!(r#"{{"title":"{kind}","status":418,"code":"x","detail":"y"}}"#);
        let resource = ResourceRef::from_digest(Sha256::digest(&bytes).into());
        let how = UploadResource::default();
        world
            .client
            .upload_resource(resource, &how, kind, bytes.clone().into_bytes())
            .await?;
        let digits = resource.to_string().replace("res://", "");

        let path = format!("/console/main/json/resources/{digits}/content");
        let answer = browser.get(&path).await?;

        assert_eq!((answer.status.as_u16(), answer.text()), (200, bytes));
        assert_eq!(
            answer.header("content-type"),
            Some("application/octet-stream"),
            "{kind}"
        );
        assert_eq!(answer.header("content-disposition"), Some("attachment"));
    }
    Ok(())
}

#[tokio::test]
async fn who_signs_out_everywhere_is_out_in_every_browser() -> Result<()> {
    let world = World::start().await?;
    let own = Browser::signed_in(&world).await?;
    let other = Browser::signed_in(&world).await?;
    let reader = Browser::with_rights(&world, "reader", Right::Read.into()).await?;
    assert_eq!(other.get("/console/main/").await?.status, 200);
    let page = own.page("/console/main/settings").await?;
    let form = hidden(&page, "form")?;

    let fields = [("form", form.as_str()), ("key", "everywhere")];
    let left = own
        .post("/console/main/sign-out-everywhere", &fields)
        .await?;

    assert_eq!(left.status, 303);
    for browser in [&own, &other] {
        let shown = browser.get("/console/main/").await?;
        assert_eq!(shown.status, 303, "it is led to sign in");
    }
    assert_eq!(
        reader.get("/console/main/").await?.status,
        200,
        "others stay"
    );
    let acts = world.client.list_audit(&Default::default()).await?.items;
    let action = "console.sign-out-everywhere";
    assert_eq!(acts.iter().filter(|act| act.action == action).count(), 1);
    Ok(())
}
