//! The lock of the state folder: by it a server that is dead is known dead before its lease ends.
//!
//! ```text
//! open `lock` ─▶ flock ─▶ read the names once ─▶ end those sessions ─▶ forget their names
//!                  └─ kept until the process dies
//! new session ─▶ its name into the file ─▶ its row, with boot, device and inode
//! ```
//!
//! The system frees the lock when the last of the process is gone, and not before: a process that is stopped, or waits
//! for a disk, keeps it. So a session that is named in the file belongs to a process that is dead once another process
//! has the lock, provided that both had the same lock. Paths, host names and machine ids prove nothing of the kind,
//! because containers and copies share them. Boot, device and inode do: an open file keeps its number on its device, and
//! a boot has one kernel. They stand in the session's row, and only a row that agrees is ended.
//!
//! `flock` and never `fcntl`: that lock is gone as soon as the process closes the file anywhere, and two openings within
//! one process do not exclude each other. A child does not keep the lock: the file is closed as it begins its program.
//! A file system that may keep locks to itself (of a network, or of another program) is not trusted, and the lease
//! decides there, as it does wherever something fails here.
//!
//! A disk may hang for longer than a lease, and the renewal must not hang with it. So the file is read and written by
//! threads of its own, one at a time, and each caller waits for a limit. A session whose name is not known to be in the
//! file is opened as without the lock: its name may get there later, but its row says nothing of a lock, and only a row
//! that agrees is ended.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock, fstatfs};
use rustix::io::Errno;
use semel_model::{SessionId, Span};
use semel_store::sessions::LockPlace;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

/// The name of the file in the state folder.
const NAME: &str = "lock";

/// The kernel says by it which boot it is, the same in all containers.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The most bytes of names that are read; the sessions behind them are left to their leases.
const READ_MAX: u64 = 64 << 10;

/// The most sessions of this process that the file names: all but the last are over.
const OWN_MAX: usize = 16;

/// The longest that a caller waits for the disk; less if leases are short.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// The file systems, by the numbers that `statfs` gives, whose locks the kernel keeps in one place: ext2 to ext4, XFS,
/// Btrfs, ZFS, F2FS, tmpfs and overlayfs.
const TRUSTED: [u64; 7] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0x2fc1_2fc1,
    0xf2f5_2010,
    0x0102_1994,
    0x794c_7630,
];

/// The lock of a state folder, which this process has or tries to get.
#[derive(Debug)]
pub(crate) struct StateLock {
    /// Open until the process dies, and so is the lock.
    file: Arc<File>,
    place: LockPlace,
    names: Arc<Mutex<Names>>,
    /// Kept by the thread that is at the file, so that an older text never replaces a newer one.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// How long a caller waits for the disk.
    limit: Duration,
}

/// What the file says, as far as this process knows.
#[derive(Debug, Default)]
struct Names {
    /// Whether this process has the lock. It never loses it.
    is_held: bool,
    /// Whether [`StateLock::became_holder`] has said so.
    is_told: bool,
    /// Sessions of processes that had the lock before, and that are not ended yet.
    left: Vec<SessionId>,
    /// Sessions of this process, the last one at the end.
    own: Vec<SessionId>,
    /// Whether the last write failed: that is logged once.
    is_unwritable: bool,
}

impl StateLock {
    /// Opens the lock of a state folder, and makes both where they are missing. Nothing where the lease has to decide;
    /// the log says why.
    pub(crate) fn open(folder: &Path, lease: Span) -> Option<Self> {
        // A renewal may wait twice, and its third of the lease has to do for that too.
        let limit = WAIT_MAX.min(lease.to_duration() / 12);
        let opened = try_open(folder, limit);
        if let Err(error) = &opened {
            tracing::warn!(folder = %folder.display(), %error,
                "the state folder has no lock: if this server dies, its runs wait for the end of its lease");
        }
        opened.ok().flatten()
    }

    /// Takes the lock where no process has it, and reads the names in the file. True once in the life of the process:
    /// as soon as it has the lock.
    pub(crate) async fn became_holder(&self) -> bool {
        let is_held = self.names().is_held;
        if !is_held && let Err(error) = self.at_file(take).await {
            tracing::debug!(%error, "cannot try the lock of the state folder");
        }
        let mut names = self.names();
        names.is_held && !std::mem::replace(&mut names.is_told, true)
    }

    /// Names a session of this process in the file. Gives what the session's row is to say; nothing where this process
    /// does not have the lock, or the name is not certainly written.
    pub(crate) async fn name(&self, session: SessionId) -> Option<LockPlace> {
        if !self.names().add(session) {
            return None;
        }
        let written = self.at_file(write).await;
        let mut names = self.names();
        let was_unwritable = std::mem::replace(&mut names.is_unwritable, written.is_err());
        if let Err(error) = written {
            names.own.retain(|own| *own != session);
            if !was_unwritable {
                tracing::warn!(%error,
                    "cannot write to the lock of the state folder: if this server dies, its runs wait for the end of its lease");
            }
            return None;
        }
        Some(self.place)
    }

    /// The sessions of processes that had the lock before and are dead, until [`Self::forget`].
    pub(crate) fn list_left(&self) -> Vec<SessionId> {
        self.names().left.clone()
    }

    /// Drops the names of sessions that are ended.
    pub(crate) async fn forget(&self, ended: &[SessionId]) {
        self.names().left.retain(|left| !ended.contains(left));
        if let Err(error) = self.at_file(write).await {
            // Ending them again changes nothing.
            tracing::debug!(%error, "cannot drop names from the lock of the state folder");
        }
    }

    /// Which lock it is.
    pub(crate) fn place(&self) -> LockPlace {
        self.place
    }

    /// Works on the file in a thread, which nobody waits for beyond the limit, not even the end of the process. Work
    /// that took longer may still take effect, but never after work that was begun later.
    async fn at_file<W>(&self, work: W) -> io::Result<()>
    where
        W: FnOnce(&File, &Mutex<Names>) -> io::Result<()> + Send + 'static,
    {
        let until = Instant::now() + self.limit;
        let turn = self.turn.clone().lock_owned();
        let turn = timeout_at(until, turn).await.map_err(io::Error::other)?;
        let (file, names) = (self.file.clone(), self.names.clone());
        let (sender, done) = oneshot::channel();
        thread::Builder::new().spawn(move || {
            let worked = work(&file, &names);
            // First of all, so that a lock that is dropped is free as soon as the answer is there.
            drop((file, turn));
            sender.send(worked).ok();
        })?;
        let done = timeout_at(until, done).await.map_err(io::Error::other)?;
        done.map_err(io::Error::other)?
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        lock(&self.names)
    }
}

impl Names {
    /// Adds a session of this process; says whether the process has the lock.
    fn add(&mut self, session: SessionId) -> bool {
        if self.is_held && !self.own.contains(&session) {
            if self.own.len() >= OWN_MAX {
                self.own.remove(0);
            }
            self.own.push(session);
        }
        self.is_held
    }

    fn text(&self) -> String {
        let all = self.left.iter().chain(&self.own);
        let lines: Vec<String> = all.map(|session| format!("{session}\n")).collect();
        lines.concat()
    }
}

/// The names are locked for what is in memory, never while the disk works.
fn lock(names: &Mutex<Names>) -> MutexGuard<'_, Names> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take(file: &File, names: &Mutex<Names>) -> io::Result<()> {
    // By work that lasted longer than its caller waited.
    if lock(names).is_held {
        return Ok(());
    }
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    let left = read_names(file).unwrap_or_else(|error| {
        tracing::warn!(%error,
            "cannot read which sessions had the lock of the state folder: their leases decide");
        Vec::new()
    });
    let mut names = lock(names);
    names.left = left;
    names.is_held = true;
    Ok(())
}

/// Names have one length, so a process that dies between the two calls leaves whole ones.
fn write(file: &File, names: &Mutex<Names>) -> io::Result<()> {
    let text = lock(names).text();
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)
}

fn try_open(folder: &Path, limit: Duration) -> io::Result<Option<StateLock>> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(folder.join(NAME))?;
    let kind = u64::try_from(fstatfs(&file)?.f_type).unwrap_or_default();
    if !TRUSTED.contains(&kind) {
        tracing::info!(folder = %folder.display(), file_system = format!("{kind:#x}"),
            "locks on the file system of the state folder are not trusted: if this server dies, its runs wait for the end of its lease");
        return Ok(None);
    }
    let boot = std::fs::read_to_string(BOOT_ID)?;
    let boot = Uuid::try_parse(boot.trim()).map_err(io::Error::other)?;
    let about = file.metadata()?;
    let place = LockPlace {
        boot,
        device: about.dev().cast_signed(),
        inode: about.ino().cast_signed(),
    };
    Ok(Some(StateLock {
        file: Arc::new(file),
        place,
        names: Arc::default(),
        turn: Arc::default(),
        limit,
    }))
}

/// Whatever else the file says is left out.
fn read_names(file: &File) -> io::Result<Vec<SessionId>> {
    let mut bytes = Vec::new();
    file.take(READ_MAX).read_to_end(&mut bytes)?;
    let lines = bytes.split(|byte| *byte == b'\n');
    let names = lines.filter_map(|line| str::from_utf8(line).ok()?.parse().ok());
    Ok(names.collect())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use semel_testkit::until;

    use super::*;

    const LEASE: Span = Span::from_const_secs(30);

    fn open(folder: &Path) -> StateLock {
        StateLock::open(folder, LEASE).expect("a file system of a machine's own")
    }

    fn waiting_for(limit: Duration, lock: StateLock) -> StateLock {
        StateLock { limit, ..lock }
    }

    #[tokio::test]
    async fn one_process_has_the_lock_and_closing_the_file_elsewhere_frees_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (open(folder.path()), open(folder.path()));
        let session = SessionId::generate();

        assert!(first.became_holder().await);
        assert!(first.name(session).await.is_some());
        assert!(!second.became_holder().await);
        let text = std::fs::read_to_string(folder.path().join(NAME)).unwrap();
        assert_eq!(text, format!("{session}\n"));
        assert!(
            !second.became_holder().await,
            "the file was opened and closed again"
        );
        assert_eq!(second.name(SessionId::generate()).await, None);

        drop(first);
        assert!(second.became_holder().await);
        assert_eq!(second.list_left(), [session]);
        assert!(!second.became_holder().await, "it has the lock already");
    }

    #[tokio::test]
    async fn a_child_that_outlives_its_server_does_not_keep_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let server = open(folder.path());
        assert!(server.became_holder().await);
        // It lives until its input ends.
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();

        drop(server);
        // A child closes the file as it becomes another program, which may be a moment after it was spawned.
        let next = open(folder.path());
        let take = async || Ok(next.became_holder().await);
        let taken = until("the lock of a dropped server", take, |taken| *taken).await;
        let has_ended = child.try_wait().unwrap().is_some();
        drop(child.stdin.take());
        child.wait().unwrap();

        assert!(!has_ended, "the child is alive");
        taken.unwrap();
    }

    #[tokio::test]
    async fn names_stay_until_their_sessions_are_ended() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second, third) = (
            SessionId::generate(),
            SessionId::generate(),
            SessionId::generate(),
        );
        let lock = open(folder.path());
        assert!(lock.became_holder().await);
        assert!(lock.name(first).await.is_some());
        drop(lock);

        // It dies before it has ended the first.
        let lock = open(folder.path());
        assert!(lock.became_holder().await);
        assert!(lock.name(second).await.is_some());
        drop(lock);
        let lock = open(folder.path());
        assert!(lock.became_holder().await);
        assert_eq!(lock.list_left(), [first, second]);
        assert!(lock.name(third).await.is_some());
        lock.forget(&[first, second]).await;
        assert_eq!(lock.list_left(), []);
        drop(lock);

        let lock = open(folder.path());
        assert!(lock.became_holder().await);
        assert_eq!(lock.list_left(), [third]);
    }

    #[tokio::test]
    async fn a_copy_of_a_folder_is_another_lock() {
        let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let lock = open(folder.path());
        assert!(lock.became_holder().await);
        let session = SessionId::generate();
        assert!(lock.name(session).await.is_some());
        std::fs::copy(folder.path().join(NAME), copy.path().join(NAME)).unwrap();

        let copied = open(copy.path());

        assert!(copied.became_holder().await, "nobody has that one");
        assert_eq!(copied.list_left(), [session]);
        assert_ne!(copied.place(), lock.place(), "so the row does not agree");
    }

    #[tokio::test]
    async fn while_the_disk_hangs_sessions_have_no_lock_and_are_named_once_it_answers() {
        let folder = tempfile::tempdir().unwrap();
        let lock = open(folder.path());
        assert!(lock.became_holder().await);
        let short = waiting_for(Duration::from_millis(10), lock);
        let (hanging, session) = (SessionId::generate(), SessionId::generate());
        let (let_go, hang) = std::sync::mpsc::channel::<()>();
        let disk = short.at_file(move |_, _| hang.recv().map_err(io::Error::other));

        assert!(disk.await.is_err(), "it hangs");
        assert_eq!(short.name(hanging).await, None);
        short.forget(&[]).await;
        let_go.send(()).unwrap();
        let patient = waiting_for(Duration::from_secs(60), short);
        let named = patient.name(session).await;

        assert_eq!(named, Some(patient.place()));
        let text = std::fs::read_to_string(folder.path().join(NAME)).unwrap();
        assert_eq!(text, format!("{session}\n"), "the other has no lock");
    }

    #[tokio::test]
    async fn a_lock_that_is_got_after_nobody_waits_for_it_is_told_by_the_next_look() {
        let folder = tempfile::tempdir().unwrap();
        let short = waiting_for(Duration::from_millis(10), open(folder.path()));
        let (let_go, hang) = std::sync::mpsc::channel::<()>();
        let late = short.at_file(move |file, names| {
            hang.recv().map_err(io::Error::other)?;
            take(file, names)
        });

        assert!(late.await.is_err(), "it hangs");
        let while_it_hangs = short.became_holder().await;
        let_go.send(()).unwrap();
        let patient = waiting_for(Duration::from_secs(60), short);

        assert!(!while_it_hangs);
        assert!(patient.became_holder().await);
        assert!(!patient.became_holder().await, "it was said");
    }

    #[tokio::test]
    async fn whatever_else_stands_in_the_file_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let session = SessionId::generate();
        let mut text = format!("session_\n\n{session}\nsession_{}\n", "z".repeat(32)).into_bytes();
        text.extend([0, 0xff, b'\n']);
        text.extend(vec![b'x'; 1 << 20]);
        std::fs::write(folder.path().join(NAME), text).unwrap();

        let lock = open(folder.path());

        assert!(lock.became_holder().await);
        assert_eq!(lock.list_left(), [session]);
    }

    #[test]
    fn a_folder_that_cannot_be_written_has_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(NAME)).unwrap();

        assert!(StateLock::open(folder.path(), LEASE).is_none());
        assert!(StateLock::open(Path::new("/proc/self"), LEASE).is_none());
    }
}
