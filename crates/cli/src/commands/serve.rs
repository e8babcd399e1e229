//! `semel serve`: API, hooks and runs on a database.

pub(crate) mod keys;
pub(crate) mod oidc;
pub(crate) mod plain_http;
mod values;

use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use semel_engine::memory::answer_bytes_of;
use semel_engine::{Budget, Options};
use semel_model::Span;
use semel_server::{BodyBudget, ServerOptions};
use semel_store::{Cell, CellOptions};
use serde_json::json;
use tokio::net::TcpListener;

use crate::answer::{Answer, Problem};
use crate::archive;
use crate::code;
use crate::config::{Key, Source};
use crate::context::Context;
use crate::hardening::{fit_connections, forbid_core_dumps, keep_files_private, raise_descriptors};
use crate::logs::{self, Format};
use crate::outcome::Outcome;
use crate::output;
use crate::resources;
use crate::service::{self, Service, Signals};
use crate::text::on_the_command_line;
use values::{AuditKeep, Folders, Hosts, PersonTokens, Proxies, Ranges};

/// How long a stop may take by default.
const STOP_BOUND: Duration = Duration::from_secs(30);

/// Run a server: API, webhooks and workflow execution.
///
/// Any number of servers share one database. SIGTERM ends one gracefully, within --stop-bound; if
/// it is killed, the other servers continue its runs. Logs go to stderr.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  export DATABASE_URL=postgresql://semel@db.internal/semel?sslmode=require
  export SEMEL_SECRET_KEY_FILE=/run/secrets/semel
  semel migrate && semel serve --listen 0.0.0.0:7171

Without --listen it is reachable from this machine only. Put a TLS proxy in front of others.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) database: Database,
    /// Where to listen [env: SEMEL_LISTEN] [default: 127.0.0.1:7171].
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// The address that clients reach it by, for callbacks [env: SEMEL_PUBLIC_URL].
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// A file with the secret key, 64 hex digits; while it is changed, several, one to a line, the
    /// current one first [env: SEMEL_SECRET_KEY_FILE; or the keys themselves in SEMEL_SECRET_KEY].
    #[arg(long, value_name = "FILE")]
    secret_key_file: Option<String>,
    /// A file with the master keys that secrets are encrypted with, one to a line, the current one
    /// first [env: SEMEL_MASTER_KEYS_FILE; or the keys themselves in SEMEL_MASTER_KEYS] [default:
    /// one that is derived from the secret key].
    #[arg(long, value_name = "FILE")]
    master_keys_file: Option<String>,
    /// Private addresses that flows may reach, e.g. 10.1.0.0/16,fd00::/8 [env:
    /// SEMEL_ALLOW_PRIVATE].
    #[arg(long, value_name = "RANGES")]
    allow_private: Option<String>,
    /// The only hosts that flows may reach, e.g. api.stripe.com,*.books.example [env:
    /// SEMEL_ALLOW_HOSTS] [default: every host at an address that is allowed].
    #[arg(long, value_name = "HOSTS")]
    allow_hosts: Option<String>,
    /// The folders whose Unix sockets flows may use, e.g. /run/shop-postgresql; never Semel's own
    /// database server [env: SEMEL_ALLOW_SOCKETS] [default: none].
    #[arg(long, value_name = "FOLDERS")]
    allow_sockets: Option<String>,
    /// The proxy that HTTP requests of flows go through [env: SEMEL_HTTP_PROXY] [default: none].
    #[arg(long, value_name = "URL")]
    http_proxy: Option<String>,
    /// How long a worker may be silent before its runs go to others [default: 30s].
    #[arg(long, value_name = "SPAN")]
    lease: Option<String>,
    /// How many runs to hold at once [default: 1024].
    #[arg(long, value_name = "COUNT")]
    capacity: Option<String>,
    /// How long a destination may still act after an exchange has ended, if its connection does not
    /// say: for that long, *did not happen* is not believed [default: 60s].
    #[arg(long, value_name = "SPAN")]
    settle_margin: Option<String>,
    /// How long ended runs are kept, if their flow does not say; never shorter than the flow's `keep`
    /// [default: 90d].
    #[arg(long, value_name = "SPAN")]
    history: Option<String>,
    /// Where ended runs are archived before they are deleted: a folder, or s3://BUCKET/PREFIX, with the same keys as
    /// --resources [env: SEMEL_ARCHIVE] [default: none; they are deleted].
    #[arg(long, value_name = "PLACE")]
    archive: Option<String>,
    /// How long archived runs are kept, from their end [env: SEMEL_ARCHIVE_KEEP] [default: for ever].
    #[arg(long, value_name = "SPAN")]
    archive_keep: Option<String>,
    /// How long acts of the audit record are kept, 30d at least; their seal stays [env: SEMEL_AUDIT_KEEP]
    /// [default: for ever].
    #[arg(long, value_name = "SPAN")]
    audit_keep: Option<String>,
    /// How long tokens that a person made in the console work after that person's last sign-in, 1d at
    /// least [env: SEMEL_PERSON_TOKENS] [default: 30d].
    #[arg(long, value_name = "SPAN")]
    person_tokens: Option<String>,
    /// Where large outputs are stored: a folder, or s3://BUCKET/PREFIX [env: SEMEL_RESOURCES; and
    /// SEMEL_S3_ENDPOINT, SEMEL_S3_REGION, SEMEL_S3_ACCESS_KEY, SEMEL_S3_SECRET_KEY].
    #[arg(long, value_name = "PLACE")]
    resources: Option<String>,
    /// A folder for the responses to effects that could not be recorded before the server stopped
    /// [env: SEMEL_STATE_DIR].
    #[arg(long, value_name = "FOLDER")]
    state_dir: Option<String>,
    /// How many deliveries a second each hook accepts; 0 is no limit [default: 50].
    #[arg(long, value_name = "COUNT")]
    hook_rate: Option<String>,
    /// Promote only releases with a passing rehearsal: true or false [default: true].
    #[arg(long, value_name = "BOOL")]
    require_rehearsal: Option<String>,
    #[command(flatten)]
    oidc: oidc::ProviderArguments,
    /// Where health and metrics are served without a token, e.g. 127.0.0.1:7172 [env:
    /// SEMEL_ADMIN_LISTEN] [default: none; --listen serves metrics with a token].
    #[arg(long, value_name = "HOST:PORT")]
    admin_listen: Option<String>,
    /// How many connections one address may have, this machine aside; 0 is no limit [default: 2048].
    #[arg(long, value_name = "COUNT")]
    source_connections: Option<String>,
    /// The proxies whose X-Forwarded-For is believed, e.g. 10.0.0.5,10.1.0.0/24 [env:
    /// SEMEL_TRUSTED_PROXIES] [default: none].
    #[arg(long, value_name = "NETWORKS")]
    trusted_proxies: Option<String>,
    /// How much memory to use, in MiB [default: the limit of the cgroup, or what the machine
    /// has].
    #[arg(long, value_name = "MIB")]
    memory: Option<String>,
    /// How long a stop may take: calls that last longer are cut off, and end in doubt if they have
    /// no guard [default: 30s].
    #[arg(long, value_name = "SPAN")]
    stop_bound: Option<String>,
    /// The log format: text or json [default: json].
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
}

/// Which database, and how strict to be with it.
#[derive(Debug, clap::Args)]
pub(crate) struct Database {
    /// The database [env: DATABASE_URL].
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Use a database that may lose what it acknowledged: for tests only.
    #[arg(long)]
    accept_unsafe: bool,
}

impl Database {
    /// Whether the command line names one.
    pub(crate) const fn is_given(&self) -> bool {
        self.database.is_some()
    }

    /// Whether none is named anywhere.
    pub(crate) fn is_missing(&self, ctx: &Context) -> bool {
        ctx.config
            .find(Key::Database, self.database.as_deref())
            .is_none()
    }

    /// Connects to it.
    pub(crate) async fn connect(&self, ctx: &Context) -> Result<Cell, Problem> {
        let setting = ctx.config.find(Key::Database, self.database.as_deref());
        let Some(setting) = setting else {
            return Err(Problem::usage("no database is configured")
                .hint("set DATABASE_URL or pass --database; `semel dev` brings its own"));
        };
        if setting.source == Source::Flag && Key::Database.has_secret(&setting.value) {
            output::note(&on_the_command_line("--database", Key::Database.env()));
        }
        let options = CellOptions {
            accept_unsafe: self.accept_unsafe,
            ..CellOptions::default()
        };
        service::connect(&setting.value, options).await
    }
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let format = read(ctx, Key::LogFormat, arguments.log_format.as_deref())?;
    logs::start(format.unwrap_or(Format::Json), "info");
    forbid_core_dumps();
    keep_files_private();
    let secret = keys::secret(ctx, arguments.secret_key_file.as_deref())?;
    let masters = keys::masters(ctx, arguments.master_keys_file.as_deref(), &secret)?;
    let mut options = Options::new(secret);
    options.masters = masters;
    choose(ctx, arguments, &mut options)?;
    options.resources = resources::configured(ctx, arguments.resources.as_deref())?;
    options.archive = archive::configured(ctx, arguments.archive.as_deref()).await?;
    options.archive_ended = archive::has_ended(ctx, arguments.archive.as_deref());
    let mut signals = Signals::catch()?;
    let cell = arguments.database.connect(ctx).await?;
    refuse_pending(&cell).await?;
    let listen = ctx.config.find(Key::Listen, arguments.listen.as_deref());
    let listen = listen.map(|setting| setting.value).unwrap_or_default();
    let (listener, address) = service::listen(&listen).await?;
    options.public_url = ctx
        .config
        .find(Key::PublicUrl, arguments.public_url.as_deref())
        .map_or_else(|| format!("http://{address}"), |setting| setting.value);
    let in_the_clear = plain_http::in_the_clear(&address.to_string(), Some(&options.public_url));
    let mut limits = limits(ctx, arguments.hook_rate.as_deref())?;
    fit_connections(&mut limits, raise_descriptors());
    let required = arguments.require_rehearsal.as_deref();
    limits.require_rehearsal = read(ctx, Key::RequireRehearsal, required)?.unwrap_or(true);
    limits.oidc = oidc::configured(ctx, &arguments.oidc)?;
    let per_source = arguments.source_connections.as_deref();
    // The default was fitted to the descriptors.
    if ctx.config.is_set(Key::SourceConnections, per_source)
        && let Some(most) = read(ctx, Key::SourceConnections, per_source)?
    {
        limits.connections_per_source = most;
    }
    let proxies = arguments.trusted_proxies.as_deref();
    if let Some(Proxies(proxies)) = read(ctx, Key::TrustedProxies, proxies)? {
        limits.trusted_proxies = proxies;
    }
    if let Some(mib) = read::<u32>(ctx, Key::Memory, arguments.memory.as_deref())? {
        plan_memory(u64::from(mib) << 20, &mut options, &mut limits);
    }
    let bound = read::<Span>(ctx, Key::StopBound, arguments.stop_bound.as_deref())?;
    let bound = bound.map_or(STOP_BOUND, |bound| bound.to_duration());
    limits.drain_patience = bound / 2;
    let admin = arguments.admin_listen.as_deref();
    let admin = match ctx.config.find(Key::AdminListen, admin) {
        Some(setting) => Some(listen_for_admins(&setting.value).await?),
        None => None,
    };
    let mut service = Service::start(cell, options, limits, listener, admin).await?;
    tracing::info!(%address, "listening on {address}");
    if let Some(why) = in_the_clear {
        tracing::warn!("{why}; put a TLS proxy in front and set its https address");
    }
    tokio::select! {
        () = signals.come() => {}
        problem = service.ended() => return Err(problem),
    }
    tracing::info!("stopping: finishing open requests and returning runs to the queue");
    service.stop(bound).await?;
    tracing::info!("stopped");
    Ok(Answer::done(json!({"address": address.to_string()}), ""))
}

/// Listens where no token is asked for. Every address of the machine is rarely meant.
async fn listen_for_admins(at: &str) -> Result<TcpListener, Problem> {
    let (listener, address) = service::listen(at).await?;
    if address.ip().is_unspecified() {
        tracing::warn!(
            %address,
            "health and metrics of all namespaces are served without a token on every address of this machine: name one address in serve.admin_listen"
        );
    }
    Ok(listener)
}

/// Applies the operator's settings.
fn choose(ctx: &Context, arguments: &Arguments, options: &mut Options) -> Result<(), Problem> {
    if let Some(lease) = read::<Span>(ctx, Key::Lease, arguments.lease.as_deref())? {
        options.lease = lease;
    }
    if let Some(capacity) = read(ctx, Key::Capacity, arguments.capacity.as_deref())? {
        options.capacity = capacity;
    }
    let ranges = arguments.allow_private.as_deref();
    if let Some(Ranges(ranges)) = read(ctx, Key::AllowPrivate, ranges)? {
        options.allow_private = ranges;
    }
    let hosts = arguments.allow_hosts.as_deref();
    options.allow_hosts = read(ctx, Key::AllowHosts, hosts)?.map(|Hosts(hosts)| hosts);
    let sockets = arguments.allow_sockets.as_deref();
    if let Some(Folders(folders)) = read(ctx, Key::AllowSockets, sockets)? {
        options.allow_sockets = folders;
    }
    options.http_proxy = read(ctx, Key::HttpProxy, arguments.http_proxy.as_deref())?;
    let margin = arguments.settle_margin.as_deref();
    if let Some(margin) = read::<Span>(ctx, Key::SettleMargin, margin)? {
        options.settle_margin = margin;
    }
    if let Some(history) = read::<Span>(ctx, Key::History, arguments.history.as_deref())? {
        options.history = history;
    }
    let keep = arguments.archive_keep.as_deref();
    options.archive_keep = read(ctx, Key::ArchiveKeep, keep)?;
    let audit = read(ctx, Key::AuditKeep, arguments.audit_keep.as_deref())?;
    options.audit_keep = audit.map(|AuditKeep(keep)| keep);
    let history = options.history;
    if let Some(keep) = options.audit_keep.filter(|keep| *keep < history) {
        let text = format!("serve.audit_keep is {keep}, and serve.history is {history}");
        return Err(Problem::usage(text).hint(
            "keep acts for as long as runs at least: a run is shown with what people did to it",
        ));
    }
    let person = arguments.person_tokens.as_deref();
    if let Some(PersonTokens(lifetime)) = read(ctx, Key::PersonTokens, person)? {
        options.person_tokens = lifetime;
    }
    let folder = arguments.state_dir.as_deref();
    options.state_dir = read(ctx, Key::StateDir, folder)?;
    Ok(())
}

/// The limits of the server.
pub(super) fn limits(ctx: &Context, hook_rate: Option<&str>) -> Result<ServerOptions, Problem> {
    let mut limits = ServerOptions::default();
    if let Some(rate) = read::<u32>(ctx, Key::HookRate, hook_rate)? {
        limits.hook_rate = NonZeroU32::new(rate);
    }
    Ok(limits)
}

/// Shares the memory out: a quarter for runs in hand, a quarter for bodies, an eighth for journals that
/// are shown, a sixteenth for pages of lists, an eighth for answers while they are read. The rest is for everything else.
fn plan_memory(bytes: u64, options: &mut Options, limits: &mut ServerOptions) {
    options.memory = Budget::quarter_of(bytes);
    options.answer_bytes = answer_bytes_of(bytes);
    limits.body_budget = BodyBudget::quarter_of(bytes);
}

/// Reads a value, and says where a wrong one came from.
fn read<T: FromStr<Err: std::fmt::Display>>(
    ctx: &Context,
    key: Key,
    flag: Option<&str>,
) -> Result<Option<T>, Problem> {
    let Some(setting) = ctx.config.find(key, flag) else {
        return Ok(None);
    };
    setting.value.parse().map(Some).map_err(|error: T::Err| {
        let (name, source) = (key.name(), setting.source);
        let shown = key.shown(&setting.value);
        Problem::usage(format!("{name} is `{shown}` (from {source}): {error}"))
    })
}

async fn refuse_pending(cell: &Cell) -> Result<(), Problem> {
    let pending = semel_store::migrate::list_pending(cell)
        .await
        .map_err(|error| Problem::local(crate::answer::chain(&error)))?;
    if pending.is_empty() {
        return Ok(());
    }
    let message = format!("the database lacks {}", pending.join(", "));
    Err(
        Problem::new(Outcome::Failed, code::MIGRATIONS_PENDING, message)
            .hint("apply them first with `semel migrate`; running servers keep serving meanwhile")
            .next("semel migrate"),
    )
}
