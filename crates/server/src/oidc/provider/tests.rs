//! Places for exchanges: a crowd takes them from nobody else.

use std::pin::pin;

use futures_util::FutureExt as _;

use super::*;

fn peer(address: &str) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), 1)
}

fn provider() -> Provider {
    Provider::new(OidcOptions::new("http://127.0.0.1:1", "semel").unwrap()).unwrap()
}

#[tokio::test]
async fn one_address_does_not_take_the_places_of_others() {
    let provider = provider();
    let mut kept = Vec::new();

    for _ in 0..EXCHANGES_EACH {
        kept.push(provider.enter(peer("192.0.2.1")).await.unwrap());
    }

    assert!(provider.enter(peer("192.0.2.1")).await.is_err());
    assert!(provider.enter(peer("192.0.2.2")).await.is_ok());
}

#[tokio::test]
async fn who_finds_no_place_waits_and_a_logout_has_its_own() {
    let provider = provider();
    let mut kept = Vec::new();
    for _ in 0..EXCHANGES_MAX {
        kept.push(provider.enter(peer("127.0.0.1")).await.unwrap());
    }

    let logout = provider.enter_logout().await;
    let mut waiting = pin!(provider.enter(peer("192.0.2.1")));
    let at_once = waiting.as_mut().now_or_never();
    kept.pop();
    let waited = waiting.await;

    assert!(logout.is_ok());
    assert!(at_once.is_none(), "there is no place");
    assert!(waited.is_ok(), "a place that is left in time is taken");
}

#[tokio::test]
async fn a_provider_that_does_not_answer_is_left_alone_for_a_while() {
    let provider = provider();

    assert!(!provider.is_down());
    assert!(!provider.answers().await);
    assert!(provider.is_down());
}
