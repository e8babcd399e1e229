//! `semel dev`: everything, from nothing.
//!
//! A private PostgreSQL, its schema, a token, a secret, the server, and every flow of the
//! directory, live. Whatever was started is stopped again, in the reverse order.

mod folder;
mod greeting;
mod known;
mod rehearsing;
mod watch;

use std::time::{Duration, Instant};

use semel_engine::{Options, Secret};
use semel_postgres::{ClusterError, FindError, PrivateCluster};
use semel_rehearse::Rehearsals;
use semel_store::audit::AuditEntry;
use semel_store::{Cell, CellOptions, alerts, namespaces};
use serde_json::json;
use tokio::net::TcpListener;

use crate::access;
use crate::answer::{Answer, Problem, chain};
use crate::context::Context;
use crate::hardening::{forbid_core_dumps, keep_files_private};
use crate::logs::{self, Format};
use crate::output::{self, Progress, Reader};
use crate::resources;
use crate::service::{self, Service, Signals};
use folder::Folder;
use watch::Watch;

/// The port to begin with.
const PORT: u16 = 7171;

/// How many ports are tried from there.
const PORT_TRIES: u16 = 50;

/// What flows may reach here and not in production: this machine itself.
const OPEN: [&str; 2] = ["127.0.0.0/8", "::1/128"];

/// How often the directory is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often PostgreSQL is started again within [`MEND_WINDOW`].
const MENDS_MAX: usize = 5;

/// See [`MENDS_MAX`].
const MEND_WINDOW: Duration = Duration::from_secs(60);

/// How long the server and the engine may take to stop.
const STOP_BOUND: Duration = Duration::from_secs(10);

/// Start everything from nothing: PostgreSQL, server, and the flows of this directory.
///
/// Keeps its data in .semel/. Flows (*.flow.yaml) are published and promoted as they are saved.
/// Ctrl-C stops everything; runs continue at the next start.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel init greet && semel dev")]
pub(crate) struct Arguments {
    /// The port to listen on; by default the next free one from 7171.
    #[arg(long)]
    port: Option<u16>,

    /// Use a .semel/ that was moved, or made elsewhere: the programs that its PostgreSQL settings name are run.
    #[arg(long)]
    trust_folder: bool,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    // The pool complains when its PostgreSQL is stopped, which is what we do.
    logs::start(Format::Text, "warn,deadpool.postgres=error");
    forbid_core_dumps();
    keep_files_private();
    let folder = Folder::take(ctx.config.directory())?;
    known::check(&folder, arguments.trust_folder)?;
    let place = folder.path().to_owned();
    // Said at once, also where stderr is no terminal: the first start takes a few seconds.
    output::note("starting PostgreSQL …");
    let progress = Progress::begin(ctx.reader, "starting PostgreSQL …");
    let cluster = blocking(move || {
        let cluster = PrivateCluster::open(&place)?;
        cluster.start()?;
        Ok(cluster)
    })
    .await?;
    drop(progress);
    if let Some(note) = cluster.note() {
        output::note(note);
    }
    let mut signals = Signals::catch()?;
    let worked = tokio::select! {
        // Asked to stop before everything stood: the database is stopped all the same.
        () = signals.come() => Ok(()),
        started = start(ctx, &folder, &cluster, arguments.port) => match started {
            Ok(world) => live(ctx, &folder, &cluster, world, &mut signals).await,
            Err(problem) => Err(problem),
        },
    };
    folder.forget_address();
    let stopped = blocking(move || cluster.stop()).await;
    worked.and(stopped)?;
    output::note("stopped");
    Ok(Answer::done(json!({}), "").shown())
}

/// All that is up.
struct World {
    service: Service,
    namespace_id: i32,
    url: String,
}

async fn start(
    ctx: &Context,
    folder: &Folder,
    cluster: &PrivateCluster,
    port: Option<u16>,
) -> Result<World, Problem> {
    let address = cluster.address();
    let cell = service::connect(&address, CellOptions::default()).await?;
    super::migrate::apply(&cell).await?;
    let namespace_id = namespaces::ensure(cell.home(), &access::namespace()?)
        .await
        .map_err(|error| Problem::local(chain(&error)))?;
    // Printed by the server as lines, unless it is set where they go.
    let act = AuditEntry::new(namespace_id, "dev", "alert.set", "log");
    alerts::ensure_printed(cell.home(), namespace_id, &act)
        .await
        .map_err(|error| Problem::local(chain(&error)))?;
    keep_token(folder, &cell).await?;
    let (listener, url) = listen(port).await?;
    let mut options = Options::new(keep_secret(folder)?);
    options.public_url.clone_from(&url);
    options.resources = resources::in_folder(&folder.path().join("resources"))?;
    options.state_dir = Some(folder.path().join("state"));
    options.allow_private = OPEN.iter().filter_map(|range| range.parse().ok()).collect();
    let limits = super::serve::limits(ctx, None)?;
    let service = Service::start(cell, options, limits, listener, None).await?;
    folder.write("database", &address)?;
    folder.write("url", &url)?;
    Ok(World {
        service,
        namespace_id,
        url,
    })
}

/// Keeps the flows live until a signal asks us to stop.
async fn live(
    ctx: &Context,
    folder: &Folder,
    cluster: &PrivateCluster,
    mut world: World,
    signals: &mut Signals,
) -> Result<(), Problem> {
    let rehearsals = Rehearsals::new(world.service.engine().clone());
    let mut watch = Watch::new(ctx.config.directory(), world.namespace_id, rehearsals);
    watch.look(world.service.engine()).await;
    let console = console(folder, &world.url).await;
    let place = greeting::Place {
        url: &world.url,
        console: console.as_deref(),
        folder: folder.path(),
    };
    let ready = greeting::of(&place, watch.flows(), ctx.style);
    match ctx.reader {
        Reader::Person => output::data(&ready.text),
        Reader::Program => output::data(&ready.envelope()),
    }
    watch.greeted(&world.url);
    let mut mended = Mended::default();
    let ended = loop {
        tokio::select! {
            () = signals.come() => break None,
            problem = world.service.ended() => break Some(problem),
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        if !cluster.is_running() {
            match mended.mend(cluster).await {
                Ok(()) => {}
                Err(problem) => break Some(problem),
            }
        }
        watch.look(world.service.engine()).await;
    };
    if let Some(problem) = ended {
        return Err(problem);
    }
    output::note("stopping …");
    world.service.stop(STOP_BOUND).await
}

/// The address that opens the console, once.
async fn console(folder: &Folder, url: &str) -> Option<String> {
    let client = semel_api::Client::new(url, &folder.read("token")?).ok()?;
    let code = client.make_sign_in_code().await.ok()?;
    Some(super::open::address(&client, &code, None))
}

/// How often the database was started again.
#[derive(Default)]
struct Mended {
    lately: Vec<Instant>,
}

impl Mended {
    /// Starts a database again that died, unless it keeps dying. Runs continue where they were.
    async fn mend(&mut self, cluster: &PrivateCluster) -> Result<(), Problem> {
        self.lately.retain(|at| at.elapsed() < MEND_WINDOW);
        if self.lately.len() >= MENDS_MAX {
            let message = format!("PostgreSQL died {MENDS_MAX} times within a minute");
            return Err(Problem::local(message).hint("its log is in .semel"));
        }
        self.lately.push(Instant::now());
        output::note("PostgreSQL has died; starting it again …");
        let cluster = cluster.clone();
        blocking(move || cluster.start()).await?;
        output::note("PostgreSQL is back; runs continue where they were");
        Ok(())
    }
}

/// The token of the folder, or a new one where that one does not work.
async fn keep_token(folder: &Folder, cell: &Cell) -> Result<(), Problem> {
    if let Some(token) = folder.read("token")
        && access::works(cell, &token).await?
    {
        return Ok(());
    }
    let wanted = access::Wanted::with_all_rights("dev", &[]);
    let (token, _) = access::make_token(cell, &wanted).await?;
    folder.write("token", &token)
}

/// The secret of the folder, or a new one.
fn keep_secret(folder: &Folder) -> Result<Secret, Problem> {
    let secret = match folder.read("secret") {
        Some(secret) => secret,
        None => {
            let secret = Secret::generate();
            folder.write("secret", &secret)?;
            secret
        }
    };
    Secret::from_hex(&secret).map_err(|error| {
        let path = folder.path().join("secret");
        Problem::local(format!("{} cannot be used: {error}", path.display()))
            .hint("remove the file; existing callback addresses stop working then")
    })
}

/// Listens on the port that was asked for, or on the next free one.
async fn listen(port: Option<u16>) -> Result<(TcpListener, String), Problem> {
    let mut found = service::listen(&format!("127.0.0.1:{}", port.unwrap_or(PORT))).await;
    if port.is_none() {
        for next in PORT + 1..PORT + PORT_TRIES {
            if found.is_ok() {
                break;
            }
            found = service::listen(&format!("127.0.0.1:{next}")).await;
        }
    }
    let (listener, address) = found?;
    Ok((listener, format!("http://{address}")))
}

/// Starts and stops PostgreSQL on a thread that may wait.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ClusterError> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| cluster_problem(&error)),
        Err(error) => Err(Problem::local(format!("a thread broke: {error}"))),
    }
}

/// What went wrong with PostgreSQL, and what a person can do about it.
fn cluster_problem(error: &ClusterError) -> Problem {
    let problem = Problem::local(chain(error));
    match error {
        ClusterError::Find(FindError::NotInstalled) => problem.hint(
            "install it (Debian: `apt install postgresql`, macOS: `brew install postgresql`), \
             or set DATABASE_URL and use `semel migrate` and `semel serve`",
        ),
        ClusterError::Find(FindError::NoAccount) => {
            problem.hint("run `semel dev` as an ordinary user: PostgreSQL refuses to run as root")
        }
        ClusterError::NotStarted { log, .. } => {
            problem.hint(format!("its log is {}", log.display()))
        }
        ClusterError::Home { .. }
        | ClusterError::Io { .. }
        | ClusterError::Initdb(_)
        | ClusterError::NotStopped(_) => problem,
    }
}
