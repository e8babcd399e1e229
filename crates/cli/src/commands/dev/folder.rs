//! `.semel/`: what one directory's `semel dev` keeps, and the lock that only one may hold.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::answer::Problem;
use crate::code;
use crate::config::LOCAL_FOLDER;
use crate::outcome::Outcome;

/// The folder, held by this process. The system drops the lock when the process ends, however it
/// ends, so nothing stale stays behind.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes the folder where it is missing, and takes it.
    pub(super) fn take(directory: &Path) -> Result<Self, Problem> {
        let path = directory.join(LOCAL_FOLDER);
        let failed = |error: io::Error| {
            Problem::local(format!(
                "cannot keep anything in {}: {error}",
                path.display()
            ))
        };
        make(&path).map_err(failed)?;
        // What is kept here is secret, and belongs to this machine.
        let ignore = create(&path.join(".gitignore"));
        ignore
            .and_then(|mut file| file.write_all(b"*\n"))
            .map_err(failed)?;
        let lock = create(&path.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(taken(&path)),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What a file of it says.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.path.join(name)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// Writes a file of it that only its owner can read, whole or not at all.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), Problem> {
        let path = self.path.join(name);
        let fresh = self.path.join(format!("{name}.new"));
        // Left over from a start that was cut off.
        let _ = fs::remove_file(&fresh);
        let mut options = File::options();
        let written = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&fresh)
            .and_then(|mut file| {
                writeln!(file, "{text}")?;
                file.sync_all()
            })
            .and_then(|()| fs::rename(&fresh, &path));
        written.map_err(|error| Problem::local(format!("cannot write {}: {error}", path.display())))
    }

    /// Removes what would lead clients to a server that is gone.
    pub(super) fn forget_address(&self) {
        for name in ["url", "database"] {
            let _ = fs::remove_file(self.path.join(name));
        }
    }
}

/// Makes the folder, for its owner alone; one that is there already is closed to others. A link in its
/// place is refused: it could have come with a clone, and lead to a folder of something else.
fn make(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok_and(|there| there.is_symlink()) {
        return Err(io::Error::other("it is a link, and not a folder"));
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o700))
}

/// Opens an empty file that only its owner can read. A link in its place is replaced: it could have
/// come with a clone, and lead to a file that must not be emptied.
fn create(path: &Path) -> io::Result<File> {
    if fs::symlink_metadata(path).is_ok_and(|there| there.is_symlink()) {
        fs::remove_file(path)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)
}

fn taken(path: &Path) -> Problem {
    let url = fs::read_to_string(path.join("url")).unwrap_or_default();
    let place = match url.trim() {
        "" => String::new(),
        url => format!(", at {url}"),
    };
    let message = format!("a `semel dev` is running in this directory{place}");
    Problem::new(Outcome::Conflict, code::ALREADY_RUNNING, message)
        .hint("use that one, or stop it first")
        .next("semel run list")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_can_hold_a_folder() {
        let directory = tempfile::tempdir().unwrap();
        let first = Folder::take(directory.path()).unwrap();
        first.write("url", "http://127.0.0.1:7171").unwrap();

        let problem = Folder::take(directory.path()).unwrap_err();

        assert!(problem.message().ends_with("at http://127.0.0.1:7171"));
        drop(first);
        Folder::take(directory.path()).unwrap();
    }

    #[test]
    fn the_folder_and_its_files_are_for_their_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(LOCAL_FOLDER);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;

        let _folder = Folder::take(directory.path()).unwrap();

        assert_eq!(mode(&path), 0o700);
        for name in ["lock", ".gitignore"] {
            assert_eq!(mode(&path.join(name)), 0o600, "{name}");
        }
    }

    #[test]
    fn a_link_in_the_folder_does_not_lead_to_another_file() {
        let directory = tempfile::tempdir().unwrap();
        let precious = directory.path().join("precious");
        fs::write(&precious, "kept").unwrap();
        let path = directory.path().join(LOCAL_FOLDER);
        fs::create_dir(&path).unwrap();
        for name in ["lock", ".gitignore"] {
            std::os::unix::fs::symlink(&precious, path.join(name)).unwrap();
        }

        let _folder = Folder::take(directory.path()).unwrap();

        assert_eq!(fs::read_to_string(&precious).unwrap(), "kept");
    }

    #[test]
    fn a_link_in_place_of_the_folder_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (clone, other) = (
            directory.path().join("clone"),
            directory.path().join("other"),
        );
        for folder in [&clone, &other] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(other.join(".gitignore"), "kept").unwrap();
        std::os::unix::fs::symlink(&other, clone.join(LOCAL_FOLDER)).unwrap();

        let taken = Folder::take(&clone);

        assert!(taken.is_err());
        assert_eq!(
            fs::read_to_string(other.join(".gitignore")).unwrap(),
            "kept"
        );
        assert!(!other.join("lock").exists());
    }

    #[test]
    fn a_token_is_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::take(directory.path()).unwrap();

        folder.write("token", "one").unwrap();
        folder.write("token", "other").unwrap();

        let mode = fs::metadata(folder.path().join("token"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(folder.read("token").as_deref(), Some("other"));
    }
}
