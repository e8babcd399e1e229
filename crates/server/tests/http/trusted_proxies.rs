//! Behind a proxy: what it says of where a request comes from is believed only where it is trusted.

use anyhow::Result;
use hyper::Method;
use semel_api::types::CreateToken;
use semel_model::{Networks, Right};
use semel_server::ServerOptions;

use crate::world::World;

fn networks(texts: &[&str]) -> Result<Networks> {
    let read: Result<Networks, _> = texts.iter().map(|text| text.parse()).collect();
    Ok(read?)
}

/// A server behind proxies at these addresses, and a token for 192.0.2.0/24 alone.
async fn behind(proxies: &[&str]) -> Result<(World, String)> {
    let options = ServerOptions {
        trusted_proxies: networks(proxies)?,
        ..ServerOptions::default()
    };
    let world = World::start_with(options).await?;
    let wanted = CreateToken {
        name: "office".to_owned(),
        role: None,
        rights: vec![Right::Read],
        groups: Vec::new(),
        networks: networks(&["192.0.2.0/24"])?,
        queues: Vec::new(),
        lifetime: None,
    };
    let token = world.client.create_token(&wanted, "office").await?;
    Ok((world, token.body.token))
}

async fn ask(client: &semel_testkit::Client, token: &str, headers: &[(&str, &str)]) -> Result<u16> {
    let bearer = format!("Bearer {token}");
    let mut all = vec![("authorization", bearer.as_str())];
    all.extend(headers);
    let answer = client.send(Method::GET, "/v1/whoami", &all, "".into());
    Ok(answer.await?.status.as_u16())
}

const XFF: &str = "x-forwarded-for";
const RFC: &str = "forwarded";

#[tokio::test]
async fn a_token_is_used_from_the_address_that_a_trusted_proxy_says() -> Result<()> {
    let (world, token) = behind(&["127.0.0.1"]).await?;
    let proxy = &world.bare;

    for (headers, status) in [
        (vec![(XFF, "192.0.2.7")], 200),
        (vec![(XFF, "203.0.113.9, 192.0.2.7, 127.0.0.1")], 200),
        // What the client wrote stands before what the proxy wrote.
        (vec![(XFF, "192.0.2.7, 203.0.113.9")], 401),
        (vec![(XFF, "192.0.2.7"), (XFF, "203.0.113.9")], 401),
        // A proxy that writes one header passes on the other, which is not read.
        (vec![(RFC, "for=192.0.2.7")], 401),
        (vec![(RFC, "for=192.0.2.7"), (XFF, "203.0.113.9")], 401),
        (vec![(RFC, "for=203.0.113.9"), (XFF, "192.0.2.7")], 200),
        // What is no address, and nothing at all.
        (vec![(XFF, "192.0.2.7, unknown")], 401),
        (vec![(XFF, "192.0.2.7, ")], 401),
        (vec![("x-real-ip", "192.0.2.7")], 401),
        (vec![], 401),
    ] {
        assert_eq!(ask(proxy, &token, &headers).await?, status, "{headers:?}");
    }

    // Past the proxy a client is where it is, whatever it says.
    let past = world.elsewhere();
    for headers in [
        vec![(XFF, "192.0.2.7")],
        vec![(RFC, "for=192.0.2.7")],
        vec![(XFF, "192.0.2.7, 127.0.0.1")],
    ] {
        assert_eq!(ask(&past, &token, &headers).await?, 401, "{headers:?}");
    }
    Ok(())
}

#[tokio::test]
async fn without_trusted_proxies_no_header_is_believed() -> Result<()> {
    let (world, token) = behind(&[]).await?;

    for headers in [vec![(XFF, "192.0.2.7")], vec![(RFC, "for=192.0.2.7")]] {
        assert_eq!(ask(&world.bare, &token, &headers).await?, 401);
    }
    Ok(())
}

/// Who guesses through a proxy runs out alone; who makes addresses up does not begin anew with each.
#[tokio::test]
async fn limits_by_address_count_the_clients_behind_a_proxy() -> Result<()> {
    let (world, _) = behind(&["127.0.0.1"]).await?;
    let guess = async |from: &str| -> Result<u16> {
        let headers = [(XFF, from)];
        let path = "/callbacks/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        let answer = world.bare.send(Method::POST, path, &headers, "{}".into());
        Ok(answer.await?.status.as_u16())
    };

    let mut own = Vec::new();
    for number in 0..12 {
        // The first address is made up, and differs each time.
        own.push(guess(&format!("198.51.100.{number}, 192.0.2.66")).await?);
    }
    let other = guess("192.0.2.67").await?;

    assert!(own.contains(&404) && own.last() == Some(&429), "{own:?}");
    assert_eq!(other, 404, "another client has its own limit");
    Ok(())
}
