//! Ways to a database that have no address, or lead to another database than they seem to.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use semel_model::DatabaseIdentity;
use semel_model::connection::Target;
use semel_steps::{DbExecutor, Destination, Egress, Reach};
use semel_testkit::Proxy;
use serde_json::json;

use crate::db::world::{World, done, failed, key, order};

/// The identity of the server of these tests.
async fn identity(world: &World) -> Result<DatabaseIdentity> {
    let admin = world.database.connect().await?;
    let ask =
        "SELECT system_identifier, (SELECT oid FROM pg_database WHERE datname = current_database())
                 FROM pg_control_system()";
    let row = admin.query_one(ask, &[]).await?;
    Ok(DatabaseIdentity {
        system: row.get(0),
        database: row.get(1),
    })
}

/// An executor for which this database is the engine's own, and that may use these folders.
fn executor(world: &World, own: Option<DatabaseIdentity>, folders: &[PathBuf]) -> DbExecutor {
    let loopback = ["127.0.0.0/8"].iter().flat_map(|net| net.parse());
    let egress = Egress::new(loopback.collect()).allowing_sockets(folders.iter().cloned());
    if let Some(own) = own {
        egress.close_database(own);
    }
    let reach = Reach {
        egress: Arc::new(egress),
        ..Reach::default()
    };
    DbExecutor::new(world.gate.clone(), &reach)
}

/// The world's database behind a folder of sockets.
fn behind(world: &World, folder: &str) -> Destination {
    let mut to = world.destination();
    if let Target::Postgres(target) = &mut to.connection.to {
        folder.clone_into(&mut target.host);
    }
    to
}

#[tokio::test]
async fn a_socket_is_refused_unless_its_folder_is_allowed() -> Result<()> {
    let world = World::new().await?;
    let folder = world.database.server().socket_folder().to_owned();
    let elsewhere = tempfile::tempdir()?;
    let inside = elsewhere.path().join("inside");
    symlink(&folder, &inside)?;
    let port = world.database.server().address().port();
    let name = format!(".s.PGSQL.{port}");
    symlink(folder.join(&name), elsewhere.path().join(&name))?;
    let other = DatabaseIdentity {
        system: identity(&world).await?.system.wrapping_add(1),
        database: 5,
    };
    let none = executor(&world, Some(other), &[]);
    let another = executor(&world, Some(other), &[elsewhere.path().to_owned()]);
    let unsure = executor(&world, None, std::slice::from_ref(&folder));
    let allowed = executor(&world, Some(other), std::slice::from_ref(&folder));

    let text = folder.display().to_string();
    let spelled = format!("{text}/../{}", folder.file_name().unwrap().display());
    for (executor, host) in [
        (&none, text.clone()),
        (&none, spelled.clone()),
        (&none, "/no/such/folder".to_owned()),
        (&another, text.clone()),
        (&another, inside.display().to_string()),
        (&another, elsewhere.path().display().to_string()),
        (&unsure, text.clone()),
    ] {
        let fault = failed(
            executor
                .run(&order(1), &behind(&world, &host), key("a"))
                .await,
        );
        assert_eq!(fault.code, "address-refused", "{host}: {fault:?}");
        assert!(!fault.retryable, "{host}: {fault:?}");
    }
    for host in [text, spelled, inside.display().to_string()] {
        let mut to = behind(&world, &host);
        to.name.clone_from(&host);
        let result = done(allowed.run(&order(1), &to, key(&host)).await);
        assert_eq!(result["repeated"], json!(false), "{host}");
    }
    let abstract_name = failed(
        allowed
            .run(&order(1), &behind(&world, "@x"), key("b"))
            .await,
    );

    assert_eq!(abstract_name.code, "bad-request");
    assert_eq!(world.orders().await?, 3);
    Ok(())
}

#[tokio::test]
async fn the_own_database_is_refused_whatever_leads_to_it() -> Result<()> {
    let world = World::new().await?;
    let server = world.database.server();
    let proxy = Proxy::start(server.address()).await?;
    let folder = server.socket_folder().to_owned();
    let own = identity(&world).await?;
    let guarded = executor(&world, Some(own), std::slice::from_ref(&folder));
    let beside = DatabaseIdentity {
        database: own.database + 1,
        ..own
    };
    let guarded_beside = executor(&world, Some(beside), std::slice::from_ref(&folder));

    for (way, to) in [
        ("a socket", behind(&world, &folder.display().to_string())),
        ("its address", world.destination()),
        ("a proxy", world.destination_at(proxy.address())),
    ] {
        for executor in [&guarded, &guarded_beside] {
            let fault = failed(executor.run(&order(1), &to, key("a")).await);
            assert_eq!(fault.code, "address-refused", "{way}: {fault:?}");
        }
        let tested = guarded.test(&to).await.unwrap_err();
        assert_eq!(tested.code, "address-refused", "{way}: {tested:?}");
    }

    assert_eq!(world.orders().await?, 0);
    Ok(())
}
