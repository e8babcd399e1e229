//! A server on a database of its own, with a client that has a token and one that has none.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use hyper::Method;
use semel_api::types::{Approval, Promote, PushFlow, RunStatus, Wait};
use semel_api::{Client, ClientError, Code};
use semel_engine::{Engine, Options, ResourceLocation, RunArchive, Secret, StoredFiles};
use semel_model::{FlowName, Networks, ResourceRef, Rights, RunId, Span, TokenId};
use semel_server::auth::token_format;
use semel_server::{RunFiles, ServerOptions, serve_with_admin};
use semel_store::tokens::{self, NewToken};
use semel_store::{Cell, CellOptions, kv, migrate, namespaces};
use semel_testkit::{Database, Proxy, Server, patience, until, until_some};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::contract::Responses;

/// How long a request of a test may be held until its run ends. Servers of tests allow as much.
pub(crate) fn patience_span() -> Span {
    Span::from_secs(patience().as_secs())
}

/// A database, an engine and a server.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) client: Client,
    pub(crate) bare: semel_testkit::Client,
    pub(crate) token: String,
    pub(crate) address: SocketAddr,
    _down: DropGuard,
    pub(crate) database: Database,
    _outputs: tempfile::TempDir,
    _responses: Responses,
}

impl World {
    pub(crate) async fn start() -> Result<Self> {
        Self::start_with(ServerOptions::default()).await
    }

    /// A server with limits of the test's choice.
    pub(crate) async fn start_with(options: ServerOptions) -> Result<Self> {
        let database = new_database().await?;
        let url = database.url();
        Self::start_on(database, &url, options).await
    }

    /// A server that reaches its database through a proxy, with short timeouts.
    pub(crate) async fn start_behind_proxy() -> Result<(Self, Proxy)> {
        let database = new_database().await?;
        let proxy = Proxy::start(database.server().address()).await?;
        let url = Server::url_at(proxy.address(), database.name());
        let options = ServerOptions {
            accept_patience: Duration::from_millis(500),
            ..ServerOptions::default()
        };
        Ok((Self::start_on(database, &url, options).await?, proxy))
    }

    /// A server with an admin listener, and a client of that.
    pub(crate) async fn start_with_admin() -> Result<(Self, semel_testkit::Client)> {
        let database = new_database().await?;
        let url = database.url();
        let admin = TcpListener::bind("127.0.0.1:0").await?;
        let address = admin.local_addr()?;
        let options = ServerOptions::default();
        let world = Self::start_listening(database, &url, options, Some(admin)).await?;
        Ok((world, semel_testkit::Client::new(address, 8)))
    }

    /// A server that listens for IPv6, which clients of IPv4 reach too: their addresses are written as ones of
    /// IPv6 there.
    pub(crate) async fn start_for_both() -> Result<Self> {
        let database = new_database().await?;
        let (url, options) = (database.url(), ServerOptions::default());
        let listener = TcpListener::bind("[::]:0").await?;
        Self::start_serving(database, &url, options, (listener, None)).await
    }

    /// A server that archives runs.
    pub(crate) async fn start_archiving(archive: RunFiles) -> Result<Self> {
        let database = new_database().await?;
        let (url, options) = (database.url(), ServerOptions::default());
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let archive: Option<Arc<dyn RunArchive>> = Some(Arc::new(archive));
        Self::start_choosing(database, &url, options, (listener, None), archive).await
    }

    async fn start_on(database: Database, url: &str, options: ServerOptions) -> Result<Self> {
        Self::start_listening(database, url, options, None).await
    }

    async fn start_listening(
        database: Database,
        url: &str,
        options: ServerOptions,
        admin: Option<TcpListener>,
    ) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        Self::start_serving(database, url, options, (listener, admin)).await
    }

    async fn start_serving(
        database: Database,
        url: &str,
        options: ServerOptions,
        listeners: (TcpListener, Option<TcpListener>),
    ) -> Result<Self> {
        Self::start_choosing(database, url, options, listeners, None).await
    }

    async fn start_choosing(
        database: Database,
        url: &str,
        mut options: ServerOptions,
        (listener, admin): (TcpListener, Option<TcpListener>),
        archive: Option<Arc<dyn RunArchive>>,
    ) -> Result<Self> {
        let responses = Responses::default();
        options.inspector = Some(responses.inspector());
        options.wait_max = options.wait_max.max(patience());
        // A test of an outage chooses a short patience and wants its refusals quickly.
        let mut connections = few_connections();
        match options.accept_patience == ServerOptions::default().accept_patience {
            true => options.accept_patience = patience(),
            false => connections.read_slack = 1,
        }
        let cell = Cell::connect(url, connections).await?;
        let token = add_token(&cell, "main").await?;
        let secret = Secret::from_hex(&Secret::generate())?;
        let outputs = tempfile::tempdir()?;
        let mut chosen = Options::new(secret);
        chosen.archive = archive;
        let place = ResourceLocation::Folder(outputs.path().to_owned());
        chosen.resources = Arc::new(StoredFiles::open(&place)?);
        chosen.allow_private = vec!["127.0.0.0/8".parse()?, "::1/128".parse()?];
        let engine = Engine::start(cell, chosen).await?;

        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, listener.local_addr()?.port()));
        let down = CancellationToken::new();
        let serving = serve_with_admin(listener, admin, engine.clone(), options, down.clone());
        tokio::spawn(serving);
        Ok(Self {
            engine,
            client: Client::new(&format!("http://{address}"), &token)?,
            bare: semel_testkit::Client::new(address, 8),
            token,
            address,
            _down: down.drop_guard(),
            database,
            _outputs: outputs,
            _responses: responses,
        })
    }

    /// Another server of the same engine, for requests that its limits are about.
    pub(crate) async fn serve_also(
        &self,
        options: ServerOptions,
    ) -> Result<(SocketAddr, DropGuard)> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let down = CancellationToken::new();
        let (engine, token) = (self.engine.clone(), down.clone());
        tokio::spawn(serve_with_admin(listener, None, engine, options, token));
        Ok((address, down.drop_guard()))
    }

    /// What the server counts, asked for with the token.
    pub(crate) async fn metrics(&self) -> Result<semel_testkit::client::Answer> {
        let bearer = format!("Bearer {}", self.token);
        let headers = [("authorization", bearer.as_str())];
        let answer = self.bare.send(Method::GET, "/metrics", &headers, "".into());
        Ok(answer.await?)
    }

    /// A client at another address of this machine: 127.0.0.2, where the others are at 127.0.0.1.
    pub(crate) fn elsewhere(&self) -> semel_testkit::Client {
        let source = Ipv4Addr::new(127, 0, 0, 2);
        semel_testkit::Client::new(self.address, 8).with_source(source)
    }

    /// A client of another namespace.
    pub(crate) async fn stranger(&self) -> Result<Client> {
        let token = add_token(self.engine.cell(), "elsewhere").await?;
        Ok(Client::new(self.client.base(), &token)?)
    }

    /// An entry of `kv`; null where there is none.
    pub(crate) async fn kv(&self, entry: &str) -> Result<serde_json::Value> {
        let cell = self.engine.cell();
        let id = namespaces::ensure(cell.home(), &"main".parse()?).await?;
        Ok(kv::get(cell.of(kv::slot(id, entry)), id, entry).await?)
    }

    /// The wait of a run, once the run has come to it.
    pub(crate) async fn until_waiting(&self, run: RunId) -> Result<Wait> {
        let look = async || Ok(self.client.list_waits(Some(run)).await?.items.pop());
        until_some(&format!("{run} to wait"), look).await
    }

    /// Waits until a run is in a state.
    pub(crate) async fn until_state(&self, run: RunId, state: RunStatus) -> Result<()> {
        let look = async || Ok(self.client.get_run(run).await?.run.state);
        until(&format!("{run} to be {state:?}"), look, |seen| {
            *seen == state
        })
        .await?;
        Ok(())
    }

    /// The approval that a run asks for, once it does.
    pub(crate) async fn until_asked(&self, run: RunId) -> Result<Approval> {
        let look = async || Ok(self.client.list_approvals(Some(run)).await?.items.pop());
        until_some(&format!("{run} to ask for an approval"), look).await
    }

    /// Pushes, publishes and promotes a flow, all over the API.
    pub(crate) async fn publish(&self, name: &str, rest: &str) -> Result<FlowName> {
        let flow: FlowName = name.parse()?;
        let source = format!("flow: {name}\n{rest}");
        // Another text is another command.
        let text = ResourceRef::from_digest(Sha256::digest(source.as_bytes()).into());
        self.client.push_flow(&flow, &PushFlow { source }).await?;
        let published = self
            .client
            .publish_flow(&flow, &format!("publish {flow} {text}"))
            .await?;
        let promote = Promote {
            release: published.body.release,
            override_reason: None,
        };
        let key = format!("promote {flow} {}", promote.release);
        self.client.promote_flow(&flow, &promote, &key).await?;
        Ok(flow)
    }
}

async fn new_database() -> Result<Database> {
    Database::new(async |url| {
        migrate(&Cell::connect(&url, CellOptions::default()).await?).await?;
        Ok(())
    })
    .await
}

async fn add_token(cell: &Cell, namespace: &str) -> Result<String> {
    add_token_of(cell, namespace, "test", &[]).await
}

/// Makes a token of this name.
pub(crate) async fn add_token_of(
    cell: &Cell,
    namespace: &str,
    name: &str,
    groups: &[&str],
) -> Result<String> {
    let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
    insert_token(cell, namespace, name, &groups, Rights::ALL).await
}

/// Makes a token that has these rights.
pub(crate) async fn add_token_with(cell: &Cell, name: &str, rights: Rights) -> Result<String> {
    insert_token(cell, "main", name, &[], rights).await
}

/// Makes a token of a namespace that has these rights.
pub(crate) async fn add_token_in(
    cell: &Cell,
    namespace: &str,
    name: &str,
    rights: Rights,
) -> Result<String> {
    insert_token(cell, namespace, name, &[], rights).await
}

async fn insert_token(
    cell: &Cell,
    namespace: &str,
    name: &str,
    groups: &[String],
    rights: Rights,
) -> Result<String> {
    let minted = token_format::mint()?;
    let token = NewToken {
        id: TokenId::from_uuid(minted.id),
        name,
        digest: &minted.digest,
        lifetime: Span::from_secs(3_600),
        groups,
        role: None,
        rights,
        networks: Networks::default(),
        queues: &[],
    };
    tokens::insert(cell.home(), &namespace.parse()?, &token).await?;
    Ok(minted.text)
}

/// The code of a response that must be an error.
pub(crate) fn refused<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> Result<Code> {
    match answer {
        Err(ClientError::Problem(problem)) => problem.code().context("a known code"),
        other => anyhow::bail!("not refused: {other:?}"),
    }
}

/// A connection costs PostgreSQL more than most tests do: an engine has fewer of them than a server has, and waits longer
/// for them, because the machine may stand still.
pub(crate) fn few_connections() -> CellOptions {
    CellOptions {
        engine_connections: 3,
        read_slack: 10,
        ..CellOptions::default()
    }
}
