//! Flows reach the listed hosts, by the proxy if there is one, and nothing of the server itself.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use anyhow::{Context, Result};
use hyper::Method;
use semel_testkit::semel::{self, Api};
use semel_testkit::{
    Client, Cluster, Options, Peer, Process, Program, Proxy, free_address, patience,
};
use serde_json::{Value, json};

/// A server with further settings, and what opens it.
struct Installation {
    _cluster: Cluster,
    server: Process,
    address: SocketAddr,
    token: String,
}

impl Installation {
    async fn start(arguments: &[&str]) -> Result<Self> {
        let cluster = Cluster::start(Options::durable()).await?;
        let database = cluster.server().url("postgres");
        Self::start_on(cluster, &database, arguments).await
    }

    async fn start_on(cluster: Cluster, database: &str, arguments: &[&str]) -> Result<Self> {
        let token = semel::migrate(Program::semel()?, database).await?;
        let program = Program::semel()?;
        let (server, address) = semel::serve(program, database, "127.0.0.1:0", arguments).await?;
        Ok(Self {
            _cluster: cluster,
            server,
            address,
            token,
        })
    }

    /// Makes a connection to a database, tests it, and gives what the server found.
    async fn test_database(&self, name: &str, host: &str, port: u16) -> Result<Value> {
        let to = json!({ "postgres": { "host": host, "port": port, "database": "postgres",
            "user": "postgres", "tls": "off" } });
        let connection = json!({ "connection": { "to": to } }).to_string();
        let client = Client::new(self.address, 1);
        let api = Api::new(&client, &self.token);
        let path = format!("/v1/connections/{name}");
        api.command(Method::PUT, &path, connection).await?;
        let path = format!("{path}/test");
        let tried = api.command(Method::POST, &path, "{}".to_owned()).await?;
        tried.json()
    }

    /// Publishes a flow that posts to an address, runs it, and gives what the command says.
    async fn post_to(&self, flow: &str, url: &str) -> Result<Value> {
        let source = format!(
            "flow: {flow}\ntrigger: {{ manual: {{}} }}\nsteps:\n  \
             - {{ id: act, http: {{ put: '{url}', text: hi }} }}\n"
        );
        let client = Client::new(self.address, 1);
        let api = Api::new(&client, &self.token);
        api.publish(flow, &source).await?;
        let finished = Program::semel()?
            .args([
                "run", "start", flow, "--key", "1", "--wait", "30s", "--json",
            ])
            .env("SEMEL_URL", format!("http://{}", self.address))
            .env("SEMEL_TOKEN", &self.token)
            .run(patience())
            .await?;
        let said: Value = serde_json::from_str(&finished.stdout)
            .with_context(|| format!("{}{}", finished.stdout, finished.stderr))?;
        Ok(said["data"].clone())
    }
}

#[tokio::test]
async fn flows_reach_the_listed_hosts_and_no_other() -> Result<()> {
    let peer = Peer::start().await?;
    let port = peer.address().port();
    let installation = Installation::start(&["--allow-hosts", "localhost"]).await?;

    let listed = format!("http://localhost:{port}/plain/listed");
    let listed = installation.post_to("listed", &listed).await?;
    let other = peer.url("/plain/other");
    let other = installation.post_to("other", &other).await?;

    assert_eq!(listed["state"], "succeeded", "{listed}");
    assert_eq!(other["fault"]["code"], "address-refused", "{other}");
    assert_eq!(peer.count("/plain/listed").await?.effects, 1);
    assert_eq!(peer.count("/plain/other").await?.calls, 0);
    Ok(())
}

#[tokio::test]
async fn requests_of_flows_go_through_the_proxy() -> Result<()> {
    let proxy = Peer::start().await?;
    let installation = Installation::start(&["--http-proxy", &proxy.url("")]).await?;

    let url = "http://no-such-host.example/plain/proxied";
    let done = installation.post_to("proxied", url).await?;

    assert_eq!(done["state"], "succeeded", "{done}");
    assert_eq!(proxy.count("/plain/proxied").await?.effects, 1);
    Ok(())
}

#[tokio::test]
async fn no_way_leads_a_flow_to_the_servers_own_database() -> Result<()> {
    // As the packages have it: the server reaches its database by a socket. A range is open.
    let cluster = Cluster::start(Options::durable()).await?;
    let database = cluster.server().socket_url("postgres");
    let folder = cluster.server().socket_folder().display().to_string();
    let port = cluster.server().address().port();
    let proxy = Proxy::start(cluster.server().address()).await?;
    let arguments = ["--allow-sockets", folder.as_str()];
    let installation = Installation::start_on(cluster, &database, &arguments).await?;

    for (name, host, port) in [
        ("socket", folder.as_str(), port),
        ("direct", "127.0.0.1", port),
        ("proxied", "127.0.0.1", proxy.address().port()),
    ] {
        let found = installation.test_database(name, host, port).await?;

        assert_eq!(found["code"], "address-refused", "{name}: {found}");
    }
    Ok(())
}

#[tokio::test]
async fn connection_test_finds_the_own_database_and_says_how_another_one_is_opened() -> Result<()> {
    // A range is open, as everybody has it who reads that `serve.allow_private` opens an address.
    let cluster = Cluster::start(Options::durable()).await?;
    let port = cluster.server().address().port();
    let proxy = Proxy::start(cluster.server().address()).await?;
    let database = cluster.server().url("postgres");
    let installation = Installation::start_on(cluster, &database, &[]).await?;

    for (name, port) in [("direct", port), ("proxied", proxy.address().port())] {
        let tried = installation.test_database(name, "127.0.0.1", port).await?;

        assert_eq!(tried["ok"], false, "{name}: {tried}");
        assert_eq!(tried["code"], "address-refused", "{name}: {tried}");
        let found = tried["found"].as_str().unwrap_or_default();
        for words in [
            "a range in `serve.allow_private` does not open",
            "ADDRESS/32",
        ] {
            assert!(found.contains(words), "{name}: {found}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn no_address_of_the_machine_leads_a_flow_to_the_servers_listeners() -> Result<()> {
    let admin = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), free_address()?.port());
    let admin_listen = admin.to_string();
    let arguments = [
        "--admin-listen",
        admin_listen.as_str(),
        "--allow-private",
        "0.0.0.0/0",
    ];
    let installation = Installation::start(&arguments).await?;
    installation
        .server
        .until_line(
            "metrics of all namespaces are served without a token",
            patience(),
        )
        .await?;

    let here = outward().unwrap_or(IpAddr::from([127, 0, 0, 9]));
    let metrics = format!("http://{here}:{}/metrics", admin.port());
    let metrics = installation.post_to("metrics", &metrics).await?;
    let api = format!("http://{here}:{}/healthz", installation.address.port());
    let api = installation.post_to("api", &api).await?;

    for refused in [metrics, api] {
        assert_eq!(refused["fault"]["code"], "address-refused", "{refused}");
    }
    Ok(())
}

/// The address that this machine sends from; a machine without a network has none.
fn outward() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("203.0.113.7:9").ok()?;
    Some(socket.local_addr().ok()?.ip())
}
