//! What is left of a server that was killed, or whose machine was.
//!
//! PostgreSQL takes a pid file for live when *any* process has its number, an uncollected dead one
//! included, as happens in containers. Every process of a server works in its data directory,
//! though. When none does, the server is gone and its files may go as well. If the system has no
//! `/proc` to look at, PostgreSQL's own judgement stands.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::directory::ClusterDirectory;

/// How long the processes of a killed server may take to notice.
const DEATH_PATIENCE: Duration = Duration::from_secs(10);

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Removes the files of a server that is gone. One that lives is left alone. The port is the number
/// in the name of its socket.
pub(super) fn clear(directory: &ClusterDirectory, port: u16) -> io::Result<()> {
    let (home, data) = (directory.path(), directory.data());
    let pid_file = data.join("postmaster.pid");
    let Ok(text) = fs::read_to_string(&pid_file) else {
        return Ok(());
    };
    if !Path::new("/proc/self/cwd").exists() {
        return Ok(());
    }
    let data = fs::canonicalize(&data)?;
    let postmaster = text.lines().next().unwrap_or_default().trim();
    if works_in(Path::new("/proc").join(postmaster), &data) {
        return Ok(());
    }
    // The postmaster is gone. Its children end by themselves, and no file may go before they have.
    let deadline = Instant::now() + DEATH_PATIENCE;
    while anybody_works_in(&data)? {
        if Instant::now() > deadline {
            return Err(io::Error::other(
                "processes of a killed PostgreSQL are still running",
            ));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    let socket = format!(".s.PGSQL.{port}");
    for path in [
        pid_file,
        home.join(format!("{socket}.lock")),
        home.join(socket),
    ] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn anybody_works_in(data: &Path) -> io::Result<bool> {
    let processes = fs::read_dir("/proc")?.flatten();
    Ok(processes
        .filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok())
        .any(|entry| works_in(entry.path(), data)))
}

/// Whether a process works in a directory. An uncollected dead one works nowhere.
fn works_in(process: PathBuf, data: &Path) -> bool {
    fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::Programs;

    #[test]
    fn the_files_of_a_server_that_is_gone_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let programs = Programs::at(home.path());
        let directory = ClusterDirectory::new(home.path().to_owned(), programs);
        let data = directory.data();
        fs::create_dir(&data).unwrap();
        // Our own number: alive, but not at work in that directory.
        fs::write(
            data.join("postmaster.pid"),
            format!("{}\n", std::process::id()),
        )
        .unwrap();
        fs::write(home.path().join(".s.PGSQL.5432.lock"), "1\n").unwrap();

        clear(&directory, 5432).unwrap();

        if Path::new("/proc/self/cwd").exists() {
            assert!(!data.join("postmaster.pid").exists());
            assert!(!home.path().join(".s.PGSQL.5432.lock").exists());
        }
    }
}
