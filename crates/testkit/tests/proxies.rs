//! Connections that break on request.

use std::time::Duration;

use semel_testkit::client::SendError;
use semel_testkit::{Client, Cluster, Cut, Database, Peer, Proxy, Server, patience};
use tokio_postgres::NoTls;

#[tokio::test]
async fn a_commit_happens_though_its_acknowledgement_is_lost() {
    let database = Database::empty().await.unwrap();
    let admin = database.connect().await.unwrap();
    admin
        .batch_execute("CREATE TABLE notes (id bigint)")
        .await
        .unwrap();
    let proxy = Proxy::start(database.server().address()).await.unwrap();
    let url = Server::url_at(proxy.address(), database.name());
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);

    proxy.hold_answers();
    let insert =
        tokio::spawn(async move { client.batch_execute("INSERT INTO notes VALUES (1)").await });
    proxy.until_held(1, patience()).await.unwrap();
    proxy.cut(Cut::Reset);

    assert!(insert.await.unwrap().is_err(), "the client cannot know");
    let count: i64 = admin
        .query_one("SELECT count(*) FROM notes", &[])
        .await
        .unwrap()
        .get(0);
    assert_eq!(count, 1, "the server has committed");
}

#[tokio::test]
async fn held_answers_arrive_when_the_proxy_resumes() {
    let server = Cluster::shared().await.unwrap();
    let proxy = Proxy::start(server.address()).await.unwrap();
    let url = Server::url_at(proxy.address(), "postgres");
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);

    proxy.hold_answers();
    let query = tokio::spawn(async move { client.query_one("SELECT 7", &[]).await });
    proxy.until_held(1, patience()).await.unwrap();
    assert!(!query.is_finished());
    proxy.resume();

    assert_eq!(query.await.unwrap().unwrap().get::<_, i32>(0), 7);
}

#[tokio::test]
async fn a_refused_connection_is_lost_and_a_later_one_is_carried() {
    let peer = Peer::start().await.unwrap();
    let proxy = Proxy::start(peer.address()).await.unwrap();
    let client = Client::new(proxy.address(), 1);

    proxy.refuse();
    assert!(client.post("/plain/a", "x").await.is_err());
    proxy.resume();
    proxy.delay(Duration::from_millis(1));
    assert_eq!(client.post("/plain/b", "x").await.unwrap().status, 201);

    assert_eq!(peer.totals().await.unwrap().calls, 1);
    assert_eq!(proxy.accepted(), 2);
}

#[tokio::test]
async fn a_request_that_is_cut_half_way_does_nothing() {
    let peer = Peer::start().await.unwrap();
    let proxy = Proxy::start(peer.address()).await.unwrap();
    let client = Client::new(proxy.address(), 1);

    proxy.cut_requests_after(40, Cut::Close);
    let lost = client.post("/plain/half", "x".repeat(100)).await;
    assert!(matches!(lost, Err(SendError::Lost(_))), "{lost:?}");
    assert_eq!(client.post("/plain/whole", "x").await.unwrap().status, 201);

    assert_eq!(peer.totals().await.unwrap().effects, 1);
}

#[tokio::test]
async fn a_swallowed_answer_leaves_the_effect() {
    let peer = Peer::start().await.unwrap();
    let proxy = Proxy::start(peer.address()).await.unwrap();
    let client = Client::new(proxy.address(), 1);
    let impatient = Client::new(proxy.address(), 1).with_patience(Duration::from_millis(50));

    proxy.swallow_answers();
    let waiting = tokio::spawn(async move { client.post("/plain/a", "x").await });
    proxy.until_held(1, patience()).await.unwrap();
    let unanswered = impatient.get("/plain/a").await;

    assert!(!waiting.is_finished());
    assert!(
        matches!(unanswered, Err(SendError::TimedOut)),
        "{unanswered:?}"
    );
    assert_eq!(peer.totals().await.unwrap().effects, 1);
}
