//! A dead server is known dead by the lock of its state folder, and what it had in flight has its time all the same.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use semel_model::SessionId;
use semel_model::run::RunState;
use semel_testkit::{Connection, patience, until, until_some};
use uuid::Uuid;

use crate::world::World;

/// A session whose lease holds for long, with what its row says of a lock: boot, device and inode.
async fn open(client: &Connection, lock: Option<(&str, i64, i64)>) -> Result<SessionId> {
    let session = SessionId::generate();
    let boot = lock.map(|(boot, ..)| boot);
    let device = lock.map(|(_, device, _)| device);
    let inode = lock.map(|(.., inode)| inode);
    let open = "INSERT INTO sessions (id, process, expires_at, boot_id, lock_device, lock_inode)
                VALUES ($1, 'gone', moment() + interval '1 hour', $2::text::uuid, $3, $4)";
    client
        .execute(open, &[session.as_uuid(), &boot, &device, &inode])
        .await?;
    Ok(session)
}

/// The sessions that were ended before their leases.
async fn list_ended(client: &Connection) -> Result<Vec<Uuid>> {
    let ended = "SELECT id FROM sessions WHERE lost_at < expires_at";
    let rows = client.query(ended, &[]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Waits until the file names nothing but one session: those that were there before are ended, or need not be.
async fn until_one_name(file: &Path) -> Result<String> {
    let look = async || Ok(std::fs::read_to_string(file)?);
    let is_one = |names: &String| names.lines().count() == 1;
    until("a single name in the lock's file", look, is_one).await
}

#[tokio::test]
async fn of_the_sessions_named_in_the_file_those_end_whose_rows_agree_in_all_three() -> Result<()> {
    let world = World::start().await?;
    let client = world.database().connect().await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("lock");
    std::fs::write(&file, "")?;
    let about = std::fs::metadata(&file)?;
    let (device, inode) = (about.dev().cast_signed(), about.ino().cast_signed());
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let boot = boot.trim();
    let other_boot = Uuid::now_v7().to_string();
    let dead = open(&client, Some((boot, device, inode))).await?;
    let others = [
        open(&client, Some((&other_boot, device, inode))).await?,
        open(&client, Some((boot, device + 1, inode))).await?,
        open(&client, Some((boot, device, inode + 1))).await?,
        open(&client, None).await?,
    ];
    // Not named, as a session of a server that never had this lock.
    open(&client, Some((boot, device, inode))).await?;
    let mut names = format!("{dead}\n");
    for other in others {
        names.push_str(&format!("{other}\n"));
    }
    std::fs::write(&file, names)?;

    let _server = world.start_another_in(folder.path()).await?;
    until_one_name(&file).await?;

    assert_eq!(list_ended(&client).await?, [*dead.as_uuid()]);
    Ok(())
}

#[tokio::test]
async fn neither_a_server_in_the_same_folder_nor_one_in_a_copy_ends_a_server_that_lives()
-> Result<()> {
    let world = World::start().await?;
    let client = world.database().connect().await?;
    let (folder, copy) = (tempfile::tempdir()?, tempfile::tempdir()?);

    let _first = world.start_another_in(folder.path()).await?;
    let _second = world.start_another_in(folder.path()).await?;
    let first = std::fs::read_to_string(folder.path().join("lock"))?;
    std::fs::write(copy.path().join("lock"), &first)?;
    let _third = world.start_another_in(copy.path()).await?;
    let third = until_one_name(&copy.path().join("lock")).await?;

    assert_ne!(third, first);
    assert_eq!(list_ended(&client).await?, [] as [Uuid; 0]);
    let named = "SELECT id FROM sessions WHERE num_nulls(boot_id, lock_device, lock_inode) = 0";
    let named = client.query(named, &[]).await?;
    let named: Vec<String> = named
        .iter()
        .map(|row| format!("{}\n", SessionId::from_uuid(row.get(0))))
        .collect();
    assert_eq!(named.len(), 2, "the second has no lock");
    assert!(named.contains(&first) && named.contains(&third));
    Ok(())
}

#[tokio::test]
async fn what_a_dead_server_had_in_flight_is_repeated_a_lease_after_its_intent() -> Result<()> {
    let world = World::start().await?;
    let pay = "steps:\n  - id: pay\n    http: { post: PEER/hang/keyed/pay, json: { id: '${{ input.id }}' }, timeout: 60s }\n    guard: key\n";
    world.publish(pay).await?;
    let run = world.deliver(r#"{"id":"1"}"#).await?.run;
    world.peer.until_held(1, patience()).await?;

    // It is dead, and known dead at once.
    world.engine.suspend();
    let client = world.database().connect().await?;
    let end = "UPDATE sessions SET lost_at = moment()";
    client.execute(end, &[]).await?;
    let other = world.start_another().await?;
    let rests = "SELECT q.due_at >= j.at + interval '33 seconds'
                   FROM queue q JOIN journal j ON j.run_id = q.run_id
                  WHERE q.run_id = $1 AND q.holder IS NULL AND q.epoch > 1 AND q.stage = 'retrying'
                    AND j.events::text LIKE '%\"intended\"%'";
    let look = async || {
        let row = client.query_opt(rests, &[run.as_uuid()]).await?;
        Ok(row.map(|row| row.get::<_, bool>(0)))
    };
    let is_late = until_some("the run to rest", look).await?;
    let before = world.peer.count("/hang/keyed/pay").await?;
    world.move_clock(Duration::from_secs(34)).await?;
    world.peer.until_held(2, patience()).await?;
    world.peer.let_go().await?;
    let end = other.await_end(run, patience()).await?.context("the run")?;

    assert!(
        is_late,
        "a lease after it may have left: it may have waited for room"
    );
    assert_eq!(before.calls, 1);
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    let after = world.peer.count("/hang/keyed/pay").await?;
    assert_eq!((after.calls, after.effects), (2, 1));
    Ok(())
}
