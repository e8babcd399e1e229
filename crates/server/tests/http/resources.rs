//! Resources over HTTP: listed by pages, downloaded as files, unknown to strangers.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use hyper::Method;
use semel_api::Code;
use semel_api::types::{ResourceFilter, UploadResource};
use semel_model::request::PersistRequest;
use semel_model::{Outcome, Resource, ResourceRef, RunId, Span};
use semel_server::ServerOptions;
use semel_testkit::until_some;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use uuid::Uuid;

use crate::rate_limit::read_answer;
use crate::world::{World, refused};

async fn persist(world: &World, text: &str, name: Option<&str>) -> Result<Resource> {
    let request = PersistRequest {
        value: json!(text),
        name: name.map(str::to_owned),
        media_type: "text/html".to_owned(),
        keep: Span::from_secs(3_600),
    };
    let namespace = "main".parse()?;
    let namespace_id =
        semel_store::namespaces::ensure(world.engine.cell().home(), &namespace).await?;
    let run = RunId::from_uuid(Uuid::from_u128(1));
    let resources = world.engine.resources();
    match resources
        .persist(namespace_id, run, "render", &request)
        .await
    {
        Outcome::Done(receipt) => receipt.kept.first().cloned().context("one is kept"),
        other @ (Outcome::Failed(_) | Outcome::InDoubt(_)) => bail!("{other:?}"),
    }
}

#[tokio::test]
async fn resources_are_listed_by_pages_newest_first() -> Result<()> {
    let world = World::start().await?;
    let mut kept = Vec::new();
    for number in 0..5 {
        kept.push(
            persist(&world, &format!("text {number}"), None)
                .await?
                .resource,
        );
    }
    kept.reverse();

    let mut listed = Vec::new();
    let mut filter = ResourceFilter {
        limit: Some(2),
        cursor: None,
    };
    loop {
        let page = world.client.list_resources(&filter).await?;
        listed.extend(page.items.iter().map(|item| item.resource));
        match page.next {
            Some(cursor) => filter.cursor = Some(cursor),
            None => break,
        }
    }

    assert_eq!(listed, kept);
    Ok(())
}

#[tokio::test]
async fn a_resource_is_downloaded_as_a_file() -> Result<()> {
    let world = World::start().await?;
    let page = format!("<script>alert(1)</script>{}", "x".repeat(300_000));
    let kept = persist(&world, &page, Some("report of May.html")).await?;

    let shown = world.client.get_resource(kept.resource).await?;
    let mut content = world.client.open_resource(kept.resource).await?;
    let mut read = Vec::new();
    while let Some(piece) = content.next().await? {
        read.extend_from_slice(&piece);
    }
    let digits = kept.resource.to_string().replace("res://", "");
    let path = format!("/v1/resources/{digits}/content");
    let bearer = format!("Bearer {}", world.token);
    let headers = [("authorization", bearer.as_str())];
    let answer = world
        .bare
        .send(Method::GET, &path, &headers, bytes::Bytes::new())
        .await?;

    assert_eq!(
        (shown.bytes, shown.step.as_deref()),
        (page.len() as u64, Some("render"))
    );
    assert!(read == page.as_bytes());
    let header = |name: &str| {
        answer
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    assert_eq!(
        header("content-disposition"),
        Some("attachment; filename=\"report_of_May.html\"")
    );
    assert_eq!(header("x-content-type-options"), Some("nosniff"));
    assert_eq!(header("cache-control"), Some("no-store"));
    assert_eq!(
        header("content-length"),
        Some(page.len().to_string().as_str())
    );
    Ok(())
}

#[tokio::test]
async fn another_namespace_and_a_wrong_name_find_nothing() -> Result<()> {
    let world = World::start().await?;
    let kept = persist(&world, "mine", None).await?;
    let stranger = world.stranger().await?;

    let foreign = stranger.get_resource(kept.resource).await;
    let foreign_bytes = stranger.open_resource(kept.resource).await;
    let odd = world.bare.get("/v1/resources/..%2F..%2Fetc").await?;

    assert_eq!(refused(foreign)?, Code::ResourceNotFound);
    assert_eq!(refused(foreign_bytes)?, Code::ResourceNotFound);
    assert_eq!(odd.status, 401, "a request needs a token");
    assert!(
        stranger
            .list_resources(&ResourceFilter::default())
            .await?
            .items
            .is_empty()
    );
    Ok(())
}

/// Each upload takes memory while it lasts.
#[tokio::test]
async fn slow_uploads_take_the_places_of_their_namespace_and_leave_them_when_they_end() -> Result<()>
{
    let world = World::start().await?;
    let bytes = b"a report";
    let resource = ResourceRef::from_digest(Sha256::digest(bytes).into());
    let digits = resource.to_string().replace("res://", "");
    let head = format!(
        "PUT /v1/resources/{digits} HTTP/1.1\r\nhost: semel\r\nauthorization: Bearer {}\r\n\
         content-type: text/plain\r\ncontent-length: 1000000\r\n\r\nslow",
        world.token
    );
    let mut slow = Vec::new();
    // More than there are places: a quick upload may take one just when a slow one asks for it.
    for _ in 0..24 {
        let mut stream = TcpStream::connect(world.address).await?;
        stream.write_all(head.as_bytes()).await?;
        slow.push(stream);
    }
    let how = UploadResource::default();
    let upload = || {
        let client = &world.client;
        client.upload_resource(resource, &how, "text/plain", &bytes[..])
    };

    let look = async || Ok(upload().await.err());
    let beyond = until_some("the places for uploads to be taken", look).await?;
    let stranger = world.stranger().await?;
    let elsewhere = stranger.upload_resource(resource, &how, "text/plain", &bytes[..]);
    let elsewhere = elsewhere.await?;
    drop(slow);
    let look = async || Ok(upload().await.ok());
    let after = until_some("a place for an upload", look).await?;

    assert_eq!(refused::<()>(Err(beyond))?, Code::Overloaded);
    assert_eq!(elsewhere.resource, resource, "another namespace has places");
    assert_eq!(after.resource, resource);
    Ok(())
}

#[tokio::test]
async fn an_upload_that_stalls_is_refused_as_any_other_body() -> Result<()> {
    let world = World::start().await?;
    let (hasty, _down) = world
        .serve_also(ServerOptions {
            body_patience: Duration::from_millis(200),
            ..ServerOptions::default()
        })
        .await?;
    let announced = format!(
        "PUT /v1/resources/{} HTTP/1.1\r\nhost: semel\r\nauthorization: Bearer {}\r\n\
         content-length: 1000000\r\n\r\nslow",
        "ab".repeat(32),
        world.token
    );

    let answer = read_answer(hasty, &announced).await?;

    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("body-incomplete"), "{answer}");
    Ok(())
}

#[tokio::test]
async fn an_upload_that_is_not_what_it_says_is_refused_and_leaves_nothing() -> Result<()> {
    let world = World::start().await?;
    let named = ResourceRef::from_digest(Sha256::digest(b"a report").into());
    let came = ResourceRef::from_digest(Sha256::digest(b"another report").into());
    let how = UploadResource::default();

    let upload = world
        .client
        .upload_resource(named, &how, "text/plain", &b"another report"[..])
        .await;

    assert_eq!(refused(upload)?, Code::BodyInvalid);
    let namespace = "main".parse()?;
    let home = world.engine.cell().home();
    let id = semel_store::namespaces::ensure(home, &namespace).await?;
    let resources = world.engine.resources();
    for resource in [named, came] {
        let fault = resources.open(id, resource).await.err();
        let fault = fault.context("there is nothing")?;
        assert_eq!(fault.code, "resource-missing");
    }
    Ok(())
}
