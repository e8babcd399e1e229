//! Whether what is in a folder was put there by this user on this machine.
//!
//! A folder `.semel/` may have come with an archive or a clone. PostgreSQL would run the programs that the settings in
//! it name, and the secret in it would be known to whoever wrote it. So a folder is used only if it is known: it has
//! a random number, and a note outside of it, which no archive brings, has the digest of that number, of the folder's
//! path and of its inode. The device is left out: some file systems give it another number at each start of the
//! machine.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use semel_engine::Secret;
use sha2::{Digest as _, Sha256};

use super::folder::Folder;
use crate::answer::Problem;
use crate::code;
use crate::outcome::Outcome;
use crate::output;

/// What is used only in a known folder.
const KEPT: [&str; 4] = ["pg", "secret", "resources", "state"];

/// The random number of a folder.
const MARK: &str = "mark";

/// Refuses a folder that has something in it and is not known. One that has nothing yet, or that the user says to trust, becomes
/// known.
pub(super) fn check(folder: &Folder, is_trusted: bool) -> Result<(), Problem> {
    let notes = notes_folder(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"));
    check_by(folder, notes, is_trusted)
}

fn check_by(folder: &Folder, notes: Option<PathBuf>, is_trusted: bool) -> Result<(), Problem> {
    let place = Place::of(folder, notes)?;
    let is_known = folder.read(MARK).is_some_and(|mark| place.knows(&mark));
    if is_known {
        return Ok(());
    }
    let is_there = |name: &str| fs::symlink_metadata(folder.path().join(name)).is_ok();
    if let Some(kept) = KEPT.iter().find(|name| is_there(name))
        && !is_trusted
    {
        return Err(unknown(&folder.path().join(kept), place.notes.as_deref()));
    }
    let mark = Secret::generate();
    folder.write(MARK, &mark)?;
    if let Err(error) = place.remember(&mark) {
        output::note(&format!(
            "cannot note that {} is yours ({error}): the next `semel dev` here needs --trust-folder",
            folder.path().display()
        ));
    }
    Ok(())
}

/// Where notes about folders are, by the XDG base directories.
fn notes_folder(state: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: Option<OsString>| path.map(PathBuf::from).filter(|it| it.is_absolute());
    let state = absolute(state).or_else(|| Some(absolute(home)?.join(".local/state")))?;
    Some(state.join("semel/folders"))
}

/// A folder as a note knows it.
struct Place {
    path: PathBuf,
    inode: u64,
    /// None where there is no home to keep notes in.
    notes: Option<PathBuf>,
}

impl Place {
    fn of(folder: &Folder, notes: Option<PathBuf>) -> Result<Self, Problem> {
        let path = folder.path();
        let found = fs::canonicalize(path).and_then(|path| Ok((fs::metadata(&path)?.ino(), path)));
        let (inode, path) = found.map_err(|error| {
            Problem::local(format!("cannot look at {}: {error}", path.display()))
        })?;
        Ok(Self { path, inode, notes })
    }

    /// The note of this path.
    fn note(&self) -> Option<PathBuf> {
        let name = Sha256::digest(self.path.as_os_str().as_bytes());
        Some(self.notes.as_ref()?.join(hex::encode(&name[..16])))
    }

    fn digest(&self, mark: &str) -> String {
        let mut digest = Sha256::new();
        for part in [
            b"semel.folder.1".as_slice(),
            mark.as_bytes(),
            &self.inode.to_be_bytes(),
            self.path.as_os_str().as_bytes(),
        ] {
            digest.update(part.len().to_be_bytes());
            digest.update(part);
        }
        hex::encode(digest.finalize())
    }

    fn knows(&self, mark: &str) -> bool {
        let note = self.note().and_then(|note| fs::read_to_string(note).ok());
        note.is_some_and(|note| note.trim() == self.digest(mark))
    }

    /// Writes the note, whole or not at all.
    fn remember(&self, mark: &str) -> io::Result<()> {
        let (Some(notes), Some(note)) = (&self.notes, self.note()) else {
            return Err(io::Error::other("neither XDG_STATE_HOME nor HOME is set"));
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(notes)?;
        let fresh = note.with_extension("new");
        let _ = fs::remove_file(&fresh);
        let mut options = fs::File::options();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&fresh)?;
        writeln!(file, "{}", self.digest(mark))?;
        file.sync_all()?;
        fs::rename(&fresh, &note)
    }
}

fn unknown(kept: &Path, notes: Option<&Path>) -> Problem {
    let message = format!(
        "{} was there before, and nothing on this machine says that `semel dev` made it here",
        kept.display()
    );
    let lost = match notes {
        Some(_) => "",
        None => " (neither XDG_STATE_HOME nor HOME is set, so nothing can say so)",
    };
    Problem::new(Outcome::Denied, code::FOLDER_UNKNOWN, message).hint(format!(
        "if it came with an archive or a clone, remove it: PostgreSQL runs the programs that its settings name. If it is your \
         own, moved or made by an earlier version{lost}: semel dev --trust-folder"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with a cluster in it.
    fn plant(directory: &Path) -> Folder {
        let folder = Folder::take(directory).unwrap();
        let data = folder.path().join("pg/data");
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&data)
            .unwrap();
        fs::write(data.join("PG_VERSION"), "15\n").unwrap();
        folder
    }

    #[test]
    fn a_folder_that_has_nothing_yet_becomes_known_and_stays_so() {
        let home = tempfile::tempdir().unwrap();
        let notes = Some(home.path().join("notes"));
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::take(directory.path()).unwrap();

        check_by(&folder, notes.clone(), false).unwrap();
        fs::create_dir(folder.path().join("pg")).unwrap();
        folder.write("secret", "00").unwrap();

        check_by(&folder, notes, false).unwrap();
    }

    #[test]
    fn what_was_there_before_is_refused_until_the_user_trusts_it() {
        let home = tempfile::tempdir().unwrap();
        let notes = Some(home.path().join("notes"));
        let directory = tempfile::tempdir().unwrap();
        let folder = plant(directory.path());
        folder.write(MARK, "0123").unwrap();

        let problem = check_by(&folder, notes.clone(), false).unwrap_err();
        check_by(&folder, notes.clone(), true).unwrap();

        assert!(problem.message().contains("pg"), "{}", problem.message());
        assert!(problem.advice().unwrap().contains("--trust-folder"));
        check_by(&folder, notes, false).unwrap();
    }

    #[test]
    fn a_secret_alone_is_refused_as_well() {
        let home = tempfile::tempdir().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::take(directory.path()).unwrap();
        folder.write("secret", "00").unwrap();

        assert!(check_by(&folder, Some(home.path().to_owned()), false).is_err());
    }

    #[test]
    fn a_copy_is_not_the_folder_that_is_known() {
        let home = tempfile::tempdir().unwrap();
        let notes = Some(home.path().join("notes"));
        let directory = tempfile::tempdir().unwrap();
        let (own, copy) = (directory.path().join("own"), directory.path().join("copy"));
        for place in [&own, &copy] {
            fs::create_dir(place).unwrap();
        }
        let known = Folder::take(&own).unwrap();
        check_by(&known, notes.clone(), false).unwrap();
        let copied = plant(&copy);
        copied.write(MARK, &known.read(MARK).unwrap()).unwrap();

        assert!(check_by(&copied, notes, false).is_err());
    }

    #[test]
    fn without_a_home_a_new_folder_works_and_a_second_start_says_why_not() {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::take(directory.path()).unwrap();
        check_by(&folder, None, false).unwrap();
        folder.write("secret", "00").unwrap();

        let problem = check_by(&folder, None, false).unwrap_err();

        assert!(problem.advice().unwrap().contains("HOME"));
        check_by(&folder, None, true).unwrap();
    }

    #[test]
    fn notes_are_where_the_system_keeps_state() {
        let at = |state: Option<&str>, home: Option<&str>| {
            notes_folder(state.map(Into::into), home.map(Into::into))
        };

        assert_eq!(
            at(Some("/s"), Some("/h")),
            Some(PathBuf::from("/s/semel/folders"))
        );
        assert_eq!(
            at(Some("relative"), Some("/h")),
            Some(PathBuf::from("/h/.local/state/semel/folders"))
        );
        assert_eq!(at(None, None), None);
    }
}
