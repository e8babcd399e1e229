//! An encrypted exchange: with a server whose certificate is trusted, and with no other.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use semel_model::Connection;
use semel_model::connection::{PostgresTarget, Target, Tls};
use semel_steps::{DbExecutor, Destination};
use semel_testkit::{Cluster, Options};

use crate::db::world::{World, done, key, reach, request};

/// A root, and a certificate for loopback that it signed, in a server's folder.
const CERTIFICATES: &str = r#"
    cd "$1" || exit 1
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=root \
        -keyout root.key -out root.crt 2>/dev/null &&
    openssl req -newkey rsa:2048 -nodes -subj /CN=server -keyout server.key -out server.csr \
        2>/dev/null &&
    printf 'subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n' >server.ext &&
    openssl x509 -req -days 2 -in server.csr -CA root.crt -CAkey root.key -CAcreateserial \
        -extfile server.ext -out server.crt 2>/dev/null &&
    chmod 600 server.key"#;

/// Makes certificates and has the server use them; gives the root back.
async fn encrypt(cluster: &Cluster) -> Result<String> {
    let data = cluster.home().join("data");
    let made = Command::new("sh")
        .args(["-c", CERTIFICATES, "make"])
        .arg(&data)
        .status()?;
    ensure!(made.success(), "openssl made no certificates");
    for file in ["server.key", "server.crt"] {
        give(&data.join(file), &data)?;
    }
    let admin = cluster.server().connect("postgres").await?;
    admin.execute("ALTER SYSTEM SET ssl = on", &[]).await?;
    admin.execute("SELECT pg_reload_conf()", &[]).await?;
    Ok(std::fs::read_to_string(data.join("root.crt"))?)
}

/// Gives a file to the owner of a folder.
fn give(file: &Path, folder: &Path) -> Result<()> {
    let owner = std::fs::metadata(folder)?;
    chown(file, Some(owner.uid()), Some(owner.gid()))?;
    Ok(())
}

#[tokio::test]
async fn a_trusted_certificate_is_spoken_to_and_another_is_not() -> Result<()> {
    let world = World::new().await?;
    let cluster = Cluster::start(Options::quick()).await?;
    let root = encrypt(&cluster).await?;
    let address = cluster.server().address();
    let to = |trust: Option<String>| {
        let target = PostgresTarget {
            host: address.ip().to_string(),
            port: address.port(),
            database: "postgres".to_owned(),
            user: "postgres".to_owned(),
            secret: None,
            tls: Tls::Required,
            trust,
        };
        let connection = Connection::to(Target::Postgres(target));
        Destination::new("books".to_owned(), 1, 1, connection, BTreeMap::new())
    };
    let caller = DbExecutor::new(world.gate.clone(), &reach());

    let stranger = caller.test(&to(None)).await.unwrap_err();
    let caller = DbExecutor::new(world.gate.clone(), &reach());
    caller.prepare(&to(Some(root.clone()))).await.unwrap();
    let ask = request(
        "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
        &[],
    );
    let encrypted = done(caller.run(&ask, &to(Some(root)), key("a")).await);

    assert_eq!(stranger.code, "no-connection", "{stranger:?}");
    assert!(stranger.message.contains("certificate"), "{stranger:?}");
    assert_eq!(encrypted["records"][0]["ssl"], serde_json::json!(true));
    Ok(())
}
