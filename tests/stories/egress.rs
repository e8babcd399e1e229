//! What an operator lets flows reach: a list of hosts, and a proxy.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use semel_testkit::semel::{self, Api};
use semel_testkit::{Client, Cluster, Options, Peer, Process, Program, patience};
use serde_json::Value;

/// A server with further settings, and what opens it.
struct Installation {
    _cluster: Cluster,
    _server: Process,
    address: SocketAddr,
    token: String,
}

impl Installation {
    async fn start(arguments: &[&str]) -> Result<Self> {
        let cluster = Cluster::start(Options::durable()).await?;
        let database = cluster.server().url("postgres");
        let token = semel::migrate(Program::semel()?, &database).await?;
        let program = Program::semel()?;
        let (server, address) = semel::serve(program, &database, "127.0.0.1:0", arguments).await?;
        Ok(Self {
            _cluster: cluster,
            _server: server,
            address,
            token,
        })
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
