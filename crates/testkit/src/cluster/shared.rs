//! One server for all tests of a user, whichever process they run in.
//!
//! The first test to come through the door starts the cluster; each process that uses it holds a
//! shared lock on `users` until it ends; a watchdog ends the cluster when that lock was free
//! for a while. Locks belong to open files, so a killed process lets go of them as well.
//!
//! ```text
//! door      held while joining, and by the watchdog while it looks and ends
//! users     shared by every process that uses the cluster
//! used      touched when a process joins, and by the watchdog while the cluster is used
//! watchdog  held by the watchdog while it lives
//! home      where the cluster is, port its port
//! ```

use std::fs::{self, DirBuilder, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result, bail, ensure};
use semel_postgres::{ClusterDirectory, Programs};

use super::postmaster::{self, Postmaster};
use super::{Options, Server, new_home};
use crate::tally;
use crate::watchdog::Watchdog;

/// How long the cluster stays for the next test run.
const IDLE_S: u64 = 20;

/// How often the door may vanish before us, behind a watchdog that is leaving.
const DOOR_TRIES_MAX: usize = 100;

/// What this process holds while it uses the cluster.
struct Membership {
    server: Server,
    _users: File,
}

static MEMBERSHIP: Mutex<Option<Membership>> = Mutex::new(None);

/// Joins the shared cluster, and starts it when there is none.
pub(super) fn join() -> Result<Server> {
    let mut membership = match MEMBERSHIP.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    };
    if let Some(joined) = &*membership {
        return Ok(joined.server.clone());
    }
    let place = place()?;
    let _door = pass_door(&place)?;
    let users = open(&place.join("users"))?;
    users.lock_shared()?;
    let server = match find_running(&place) {
        Some(server) => server,
        None => start(&place)?,
    };
    File::create(place.join("used"))?;
    keep_watched(&place)?;
    *membership = Some(Membership {
        server: server.clone(),
        _users: users,
    });
    Ok(server)
}

/// The directory of the locks. Its name tells clusters of other settings and versions apart.
fn place() -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    Programs::find()?.directory().hash(&mut hasher);
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    include_str!("postmaster.rs").hash(&mut hasher);
    include_str!("shared.rs").hash(&mut hasher);
    let digest = hasher.finish();
    let uid = rustix::process::geteuid().as_raw();
    Ok(std::env::temp_dir().join(format!("semel-testkit-{uid}-{digest:016x}")))
}

/// Waits at the door and holds it. The watchdog may have removed the door we waited at, so the
/// file we locked must still be the one that the name leads to.
fn pass_door(place: &Path) -> Result<File> {
    for _ in 0..DOOR_TRIES_MAX {
        make_place(place)?;
        let path = place.join("door");
        let Ok(door) = open(&path) else { continue };
        door.lock()?;
        let locked = door.metadata()?.ino();
        if fs::metadata(&path).is_ok_and(|current| current.ino() == locked) {
            return Ok(door);
        }
    }
    bail!("the shared cluster keeps leaving: {}", place.display())
}

fn make_place(place: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(place)?;
    let owner = fs::metadata(place)?.uid();
    let ours = rustix::process::geteuid().as_raw();
    ensure!(owner == ours, "{} belongs to another user", place.display());
    Ok(())
}

fn open(path: &Path) -> Result<File> {
    let file = File::options().create(true).append(true).open(path);
    file.with_context(|| format!("cannot open {}", path.display()))
}

fn find_running(place: &Path) -> Option<Server> {
    let home = PathBuf::from(fs::read_to_string(place.join("home")).ok()?);
    let port = fs::read_to_string(place.join("port")).ok()?.parse().ok()?;
    let directory = ClusterDirectory::new(home.clone(), Programs::find().ok()?);
    postmaster::is_ready(&directory).then_some(Server {
        socket_directory: home,
        port,
    })
}

fn start(place: &Path) -> Result<Server> {
    if let Ok(dead) = fs::read_to_string(place.join("home")) {
        Watchdog::over_cluster(Path::new(&dead))?.finish();
    }
    let options = Options::quick();
    let home = new_home(&options)?;
    // Noted before it is filled: the watchdog must find it even if we are killed on the way.
    fs::write(place.join("home"), home.as_os_str().as_encoded_bytes())?;
    File::create(place.join("used"))?;
    keep_watched(place)?;
    let postmaster = tally::beside_this_test(|| Postmaster::create(&home, &options))?;
    let server = postmaster.server().clone();
    fs::write(place.join("port"), server.port.to_string())?;
    Ok(server)
}

/// Starts a watchdog unless there is one.
fn keep_watched(place: &Path) -> Result<()> {
    let watched = open(&place.join("watchdog"))?.try_lock().is_err();
    if !watched {
        Watchdog::over_shared_cluster(place, IDLE_S)?;
    }
    Ok(())
}
