//! Tokens with networks: from elsewhere they are as good as unknown, and so is what they made.

use anyhow::{Context, Result};
use hyper::Method;
use semel_api::types::{CreateNamespace, CreateToken, CreatedToken, MapGroup, TokenFilter};
use semel_api::{Client, ClientError, Code, Problem};
use semel_model::{Networks, Right, Role};
use semel_server::auth::token_format;
use semel_testkit::client::Answer;
use semel_testkit::{Cut, until};

use crate::console::{Browser, encode, hidden};
use crate::world::{World, refused};

const HERE: &[&str] = &["127.0.0.1"];
const LOOPBACK: &[&str] = &["127.0.0.0/8"];

fn networks(texts: &[&str]) -> Result<Networks> {
    let read: Result<Networks, _> = texts.iter().map(|text| text.parse()).collect();
    Ok(read?)
}

fn wanted(name: &str, rights: &[Right], from: &[&str]) -> Result<CreateToken> {
    Ok(CreateToken {
        name: name.to_owned(),
        role: None,
        rights: rights.to_vec(),
        groups: Vec::new(),
        networks: networks(from)?,
        queues: Vec::new(),
        lifetime: None,
    })
}

async fn create(by: &Client, wanted: &CreateToken) -> Result<CreatedToken, ClientError> {
    Ok(by.create_token(wanted, &wanted.name).await?.body)
}

/// A token that reads, also what is counted, and is accepted from these networks.
async fn reader(world: &World, name: &str, from: &[&str]) -> Result<String> {
    let wanted = wanted(name, &[Right::Read, Right::Instance], from)?;
    Ok(create(&world.client, &wanted).await?.token)
}

async fn get(client: &semel_testkit::Client, path: &str, token: &str) -> Result<Answer> {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    Ok(client.send(Method::GET, path, &headers, "".into()).await?)
}

/// Everything of an answer that does not say when it was given.
fn all_of(answer: &Answer) -> (u16, Vec<(String, String)>, String) {
    let headers = answer.headers.iter().filter(|(name, _)| *name != "date");
    let headers = headers.map(|(name, value)| (name.to_string(), format!("{value:?}")));
    (answer.status.as_u16(), headers.collect(), answer.text())
}

fn detail<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> Result<String> {
    match answer {
        Err(ClientError::Problem(problem)) => Ok(problem.detail),
        other => anyhow::bail!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn from_outside_its_networks_a_token_is_answered_as_an_unknown_one() -> Result<()> {
    let world = World::start().await?;
    let (here, elsewhere) = (&world.bare, world.elsewhere());
    let bound = reader(&world, "bound", HERE).await?;
    let wide = reader(&world, "wide", LOOPBACK).await?;
    let nowhere = reader(&world, "nowhere", &["10.0.0.0/8", "2001:db8::/32"]).await?;
    let unknown = token_format::mint()?.text;

    // Before and after a server knows the token, and on the route that remembers tokens longer.
    let mut outside = Vec::new();
    for path in ["/v1/whoami", "/v1/runs", "/metrics"] {
        let first = get(&elsewhere, path, &bound).await?;
        let inside = get(here, path, &bound).await?;
        assert_eq!(inside.status, 200, "{path}: {}", inside.text());
        let again = get(&elsewhere, path, &bound).await?;
        let stranger = get(&elsewhere, path, &unknown).await?;
        assert_eq!(stranger.status, 401);
        assert_eq!(all_of(&first), all_of(&stranger), "{path}");
        assert_eq!(all_of(&again), all_of(&stranger), "{path}");
        outside.extend([first, again]);
    }

    for client in [here, &elsewhere] {
        assert_eq!(get(client, "/v1/whoami", &wide).await?.status, 200);
        assert_eq!(get(client, "/v1/whoami", &nowhere).await?.status, 401);
    }
    let listed = world.client.list_tokens(&TokenFilter::default()).await?;
    let nowhere = listed.items.iter().find(|token| token.name == "nowhere");
    let nowhere = nowhere.context("it is listed")?;
    assert_eq!(nowhere.last_used_at, None, "it was never used");
    assert_eq!(
        nowhere.networks,
        networks(&["10.0.0.0/8", "2001:db8::/32"])?
    );
    let counted = format!("semel_token_network_refusals_total {}\n", outside.len() + 2);
    let metrics = world.metrics().await?.text();
    assert!(metrics.contains(&counted), "{metrics}");
    Ok(())
}

#[tokio::test]
async fn an_address_of_ipv4_counts_as_such_on_a_socket_of_ipv6() -> Result<()> {
    let world = World::start_for_both().await?;
    let four = reader(&world, "four", HERE).await?;
    let six = reader(&world, "six", &["::1"]).await?;
    let over_six = semel_testkit::Client::new(format!("[::1]:{}", world.address.port()), 2);

    assert_eq!(get(&world.bare, "/v1/whoami", &four).await?.status, 200);
    assert_eq!(get(&world.bare, "/v1/whoami", &six).await?.status, 401);
    assert_eq!(get(&over_six, "/v1/whoami", &six).await?.status, 200);
    assert_eq!(get(&over_six, "/v1/whoami", &four).await?.status, 401);
    let elsewhere = world.elsewhere();
    assert_eq!(get(&elsewhere, "/v1/whoami", &four).await?.status, 401);
    Ok(())
}

#[tokio::test]
async fn what_a_request_says_of_its_sender_is_not_believed() -> Result<()> {
    let world = World::start().await?;
    let bound = reader(&world, "bound", &["10.0.0.0/8"]).await?;
    let bearer = format!("Bearer {bound}");

    for name in [
        "x-forwarded-for",
        "x-real-ip",
        "forwarded",
        "true-client-ip",
    ] {
        let value = match name {
            "forwarded" => "for=10.0.0.1",
            _ => "10.0.0.1",
        };
        let headers = [("authorization", bearer.as_str()), (name, value)];
        let asked = world
            .bare
            .send(Method::GET, "/v1/whoami", &headers, "".into());
        assert_eq!(asked.await?.status, 401, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn during_an_outage_a_token_is_remembered_inside_its_networks_only() -> Result<()> {
    let (world, proxy) = World::start_behind_proxy().await?;
    let elsewhere = world.elsewhere();
    let bound = reader(&world, "bound", HERE).await?;
    let unknown = token_format::mint()?.text;
    assert_eq!(get(&world.bare, "/metrics", &bound).await?.status, 200);
    proxy.refuse();
    proxy.cut(Cut::Reset);
    let look = async || Ok(world.client.is_ready().await?);
    until("the server to be unready", look, |ready| !ready).await?;

    let inside = get(&world.bare, "/metrics", &bound).await?;
    let outside = get(&elsewhere, "/metrics", &bound).await?;
    let stranger = get(&elsewhere, "/metrics", &unknown).await?;

    assert_eq!(inside.status, 200, "{}", inside.text());
    assert_eq!(all_of(&outside), all_of(&stranger));
    assert!(!outside.status.is_success(), "{}", outside.text());
    Ok(())
}

#[tokio::test]
async fn a_code_and_a_sign_in_work_inside_the_networks_of_their_token() -> Result<()> {
    let world = World::start().await?;
    let elsewhere = world.elsewhere();
    let token = reader(&world, "bound", HERE).await?;
    let code = Client::new(world.client.base(), &token)?;
    let code = code.make_sign_in_code().await?.code;
    let own = format!("http://{}", world.address);
    let form = "application/x-www-form-urlencoded";
    let enter = async |code: &str| {
        let headers = [("content-type", form), ("origin", own.as_str())];
        let body = encode(&[("code", code)]).into();
        let path = "/console/sign-in";
        let entered = elsewhere.send(Method::POST, path, &headers, body).await?;
        Ok::<_, anyhow::Error>(entered)
    };

    let outside = enter(&code).await?;
    let unknown = enter(&"A".repeat(code.len())).await?;
    let mut browser = Browser::new(&world);
    let inside = browser.sign_in(&code).await?;
    let page = browser.page("/console/main/runs").await?;

    assert_eq!(all_of(&outside), all_of(&unknown));
    assert_eq!(
        (outside.status.as_u16(), inside.status.as_u16()),
        (400, 303)
    );
    let cookie = inside.header("set-cookie").context("a cookie")?;
    let cookie = cookie.split(';').next().context("a pair")?;
    let stolen = [
        ("cookie", cookie),
        ("origin", own.as_str()),
        ("content-type", form),
    ];
    for path in [
        "/console",
        "/console/main/runs",
        "/console/main/live?topic=runs",
        "/console/main/live?topic=runs&once=yes",
        "/console/main/json/whoami",
    ] {
        let asked = elsewhere
            .send(Method::GET, path, &stolen, "".into())
            .await?;
        let to = asked.header("location").unwrap_or_default().to_owned();
        assert_eq!(asked.status, 303, "{path}: {}", asked.text());
        assert!(to.starts_with("/console/sign-in?to="), "{path}: {to}");
    }
    let sign_out = encode(&[("form", &hidden(&page, "form")?)]);
    let path = "/console/main/sign-out";
    let left = elsewhere.send(Method::POST, path, &stolen, sign_out.into());
    let left = left.await?;
    assert_eq!(left.header("location"), Some("/console/sign-in?to="));
    assert_eq!(
        browser.get("/console/main/runs").await?.status,
        200,
        "it is not over"
    );
    let counted = "semel_token_network_refusals_total 7\n";
    let metrics = world.metrics().await?.text();
    assert!(metrics.contains(counted), "{metrics}");
    Ok(())
}

#[tokio::test]
async fn a_token_gives_networks_inside_its_own_and_no_others() -> Result<()> {
    let world = World::start().await?;
    let rights = [Right::Admin, Right::Read, Right::Instance];
    let maker = create(&world.client, &wanted("desk", &rights, LOOPBACK)?).await?;
    let desk = Client::new(world.client.base(), &maker.token)?;
    let read = &[Right::Read];

    let within = create(
        &desk,
        &wanted("within", read, &["127.0.0.1", "127.1.0.0/16"])?,
    )
    .await?;
    for (name, beyond) in [
        ("anywhere", &[][..]),
        ("partly", &["127.0.0.1", "10.0.0.0/8"]),
        ("wider", &["126.0.0.0/7"]),
        ("six", &["::1"]),
    ] {
        let said = detail(create(&desk, &wanted(name, read, beyond)?).await)?;
        let expected = "the token `desk` works only from 127.0.0.0/8, and gives no more than that";
        assert_eq!(said, expected, "{name}");
    }
    let shop = CreateNamespace {
        name: "shop".parse()?,
        admin: "ada".to_owned(),
        lifetime: None,
    };
    let first = desk.create_namespace(&shop, "shop").await?.body.admin.kept;
    let map = MapGroup {
        group: "staff".to_owned(),
        role: Role::Observer,
        rights: semel_model::Rights::default(),
    };
    let mapped = desk.map_group(&map).await;

    assert_eq!(
        within.kept.networks.words(),
        ["127.0.0.1/32", "127.1.0.0/16"]
    );
    assert_eq!(
        first.networks, maker.kept.networks,
        "of the first token, too"
    );
    let said = detail(mapped)?;
    assert!(said.contains("people are not limited to it"), "{said}");
    let who = desk.whoami().await?;
    assert_eq!(who.networks, maker.kept.networks);
    Ok(())
}

#[tokio::test]
async fn a_repeat_with_other_networks_is_another_command() -> Result<()> {
    let world = World::start().await?;
    let read = &[Right::Read];
    create(
        &world.client,
        &wanted("ci", read, &["10.1.0.0/16", "10.2.0.0/16"])?,
    )
    .await?;

    let same = wanted("ci", read, &["10.2.0.0/16", "10.1.0.0/16", "10.2.0.0/16"])?;
    let same = world.client.create_token(&same, "ci").await?;
    let wider = create(&world.client, &wanted("ci", read, &[])?).await;

    assert!(same.replayed, "the same networks in another order");
    assert_eq!(refused(wider)?, Code::CommandMismatch);
    Ok(())
}

#[tokio::test]
async fn what_is_no_network_is_refused_with_what_to_write() -> Result<()> {
    let world = World::start().await?;
    let bearer = format!("Bearer {}", world.token);
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
    ];

    for (network, said) in [
        (
            "10.1.2.3/8",
            "write 10.0.0.0/8 for all of it, or 10.1.2.3 alone",
        ),
        ("10.0.0.0/33", "write 10.0.0.0/8 or 2001:db8::/32"),
        ("office", "write 10.0.0.0/8 or 2001:db8::/32"),
        ("0.0.0.0/0", "leave the networks out"),
        ("::/0", "leave the networks out"),
        ("::ffff:10.0.0.0/104", "write 10.0.0.0/8"),
    ] {
        let body = format!(r#"{{"name":"x","rights":["read"],"networks":["{network}"]}}"#);
        let answer = world
            .bare
            .send(Method::POST, "/v1/tokens", &headers, body.into());
        let answer = answer.await?;
        assert_eq!(answer.status, 400, "{network}");
        let problem: Problem = answer.json()?;
        assert_eq!(problem.code, "body-invalid");
        assert!(
            problem.detail.contains(said),
            "{network}: {}",
            problem.detail
        );
    }
    let many: Vec<String> = (0..33).map(|n| format!("10.0.{n}.0/24")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let many = create(&world.client, &wanted("many", &[Right::Read], &many)?).await;
    assert_eq!(refused(many)?, Code::BodyInvalid);
    Ok(())
}

#[tokio::test]
async fn the_console_shows_where_a_token_is_accepted_from() -> Result<()> {
    let world = World::start().await?;
    let token = reader(&world, "bound", &["127.0.0.1", "10.0.0.0/8"]).await?;
    let own = Client::new(world.client.base(), &token)?;

    let listed = Browser::signed_in(&world).await?;
    let listed = listed.page("/console/main/tokens").await?;
    let own = Browser::signed_in_as(&world, &own).await?;
    let own = own.page("/console/main/settings").await?;

    for page in [listed, own] {
        assert!(page.contains("10.0.0.0/8, 127.0.0.1/32"), "{page}");
    }
    Ok(())
}
