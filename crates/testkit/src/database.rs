//! A database for each test, copied from a migrated template.
//!
//! The template is made once per cluster and set of migrations. A copy costs milliseconds, and
//! tests that own their database need no cleaning and never see rows of other tests.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::cluster::{Cluster, Server};
use crate::{tally, until};

/// The database from which others are made and dropped.
const MAINTENANCE: &str = "postgres";

/// A database of one's own, dropped with this value.
#[derive(Debug)]
pub struct Database {
    server: Server,
    name: String,
}

impl Database {
    /// Makes a migrated database on the shared cluster.
    ///
    /// `migrate` gets a URL and is called only when the template does not exist yet.
    pub async fn new<F>(migrate: F) -> Result<Self>
    where
        F: AsyncFnOnce(String) -> Result<()>,
    {
        Self::new_on(&Cluster::shared().await?, migrate).await
    }

    /// Makes a migrated database on a given server.
    pub async fn new_on<F>(server: &Server, migrate: F) -> Result<Self>
    where
        F: AsyncFnOnce(String) -> Result<()>,
    {
        let admin = server.connect(MAINTENANCE).await?;
        let template = format!("template_{:016x}", fingerprint()?);
        ensure_template(server, &admin, &template, migrate).await?;
        Self::create(server, &admin, &template).await
    }

    /// Makes a database without any tables on the shared cluster.
    pub async fn empty() -> Result<Self> {
        let server = Cluster::shared().await?;
        let admin = server.connect(MAINTENANCE).await?;
        Self::create(&server, &admin, "template0").await
    }

    async fn create(server: &Server, admin: &Client, template: &str) -> Result<Self> {
        let name = format!("test_{}", Uuid::now_v7().simple());
        admin
            .batch_execute(&format!(
                // Copies files, and with them the cache that spares each new session reading the catalogue.
                r#"CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY FILE_COPY"#
            ))
            .await
            .context("cannot copy the template")?;
        Ok(Self {
            server: server.clone(),
            name,
        })
    }

    /// The URL over TCP.
    pub fn url(&self) -> String {
        self.server.url(&self.name)
    }

    /// The URL over the Unix socket.
    pub fn socket_url(&self) -> String {
        self.server.socket_url(&self.name)
    }

    /// The database's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The server it lives on.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Opens a connection, driven by a task of the current runtime.
    pub async fn connect(&self) -> Result<Client> {
        self.server.connect(&self.name).await
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), std::mem::take(&mut self.name));
        // The test's own runtime may be stopping or single-threaded, so this one is apart.
        let dropper = std::thread::spawn(move || drop_blocking(&server, &name));
        // A cluster that is gone or killed took the database with it.
        dropper
            .join()
            .map_err(|_| anyhow!("the dropper panicked"))
            .and_then(|done| done)
            .ok();
    }
}

fn drop_blocking(server: &Server, name: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let admin = server.connect(MAINTENANCE).await?;
        if tally::is_kept() {
            // A database that could not be counted is dropped all the same.
            count(&admin, name).await.ok();
        }
        admin
            .batch_execute(&format!(r#"DROP DATABASE IF EXISTS "{name}" WITH (FORCE)"#))
            .await?;
        Ok(())
    })
}

/// Adds what a database was used for to the tally. Its sessions are ended first, because each reports what it did
/// when it ends.
async fn count(admin: &Client, name: &str) -> Result<()> {
    // All at once: asked to wait for each, PostgreSQL looks every tenth of a second whether that one is gone.
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = $1";
    until(
        "the sessions of a test's database to end",
        async || Ok(admin.query_one(end, &[&name]).await?.get::<_, i64>(0)),
        |left| *left == 0,
    )
    .await?;
    let used = admin
        .query_one(
            "SELECT sessions, xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1",
            &[&name],
        )
        .await?;
    tally::add("database", 1);
    tally::add("connections", used.get(0));
    tally::add("transactions", used.get(1));
    Ok(())
}

/// Makes the template unless it is there, one test at a time.
async fn ensure_template<F>(server: &Server, admin: &Client, name: &str, migrate: F) -> Result<()>
where
    F: AsyncFnOnce(String) -> Result<()>,
{
    if is_finished(admin, name).await? {
        return Ok(());
    }
    // Advisory locks are per database, so nothing that a migration does can wait for this one.
    admin
        .execute("SELECT pg_advisory_lock(hashtext($1))", &[&name])
        .await?;
    let made = make_template(server, admin, name, migrate).await;
    admin
        .execute("SELECT pg_advisory_unlock(hashtext($1))", &[&name])
        .await?;
    made
}

async fn make_template<F>(server: &Server, admin: &Client, name: &str, migrate: F) -> Result<()>
where
    F: AsyncFnOnce(String) -> Result<()>,
{
    if is_finished(admin, name).await? {
        return Ok(());
    }
    // What is there was left half made by a test that was killed.
    admin
        .batch_execute(&format!(r#"DROP DATABASE IF EXISTS "{name}" WITH (FORCE)"#))
        .await?;
    admin
        .batch_execute(&format!(r#"CREATE DATABASE "{name}" TEMPLATE template0"#))
        .await?;
    migrate(server.socket_url(name))
        .await
        .context("cannot migrate the template")?;
    polish(server, name)
        .await
        .context("cannot polish the template")?;
    // A database that is a template is finished. No session may connect from now on, because a
    // database with connections cannot be copied.
    admin
        .batch_execute(&format!(
            r#"ALTER DATABASE "{name}" WITH IS_TEMPLATE true ALLOW_CONNECTIONS false"#
        ))
        .await?;
    admin
        .execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1",
            &[&name],
        )
        .await?;
    Ok(())
}

/// Leaves the catalogue as it is in a database that has been used for a while: its rows are marked as committed, and
/// the file from which sessions fill their caches is there.
async fn polish(server: &Server, name: &str) -> Result<()> {
    let client = server.connect(name).await?;
    let tables = client
        .query(
            "SELECT quote_ident(relname) FROM pg_class
              WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'r' AND NOT relisshared",
            &[],
        )
        .await?;
    let tables: Vec<&str> = tables.iter().map(|row| row.get(0)).collect();
    client
        .batch_execute(&format!("VACUUM (FREEZE) {}", tables.join(", ")))
        .await?;
    drop(client);
    // The first session after the last change of the catalogue writes the file.
    server
        .connect(name)
        .await?
        .batch_execute("SELECT 1")
        .await?;
    Ok(())
}

async fn is_finished(admin: &Client, name: &str) -> Result<bool> {
    let row = admin
        .query_opt(
            "SELECT datistemplate FROM pg_database WHERE datname = $1",
            &[&name],
        )
        .await?;
    Ok(row.is_some_and(|row| row.get(0)))
}

/// Tells sets of migrations apart: by their text, and by the executable that applies them.
fn fingerprint() -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    let executable = fs::metadata(std::env::current_exe()?)?;
    (executable.ino(), executable.len(), executable.mtime_nsec()).hash(&mut hasher);
    let migrations = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations");
    let mut files: Vec<_> = match fs::read_dir(migrations) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(_) => Vec::new(),
    };
    files.sort();
    for file in files.iter().filter(|file| file.is_file()) {
        file.file_name().hash(&mut hasher);
        fs::read(file)?.hash(&mut hasher);
    }
    Ok(hasher.finish())
}
