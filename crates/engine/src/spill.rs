//! Responses on disk: what a process knows that must stop while the database is unavailable.
//!
//! Until it is recorded, only one process knows the response to an effect. A process that must stop
//! before the database is back leaves it in its state folder, a file each. The next process that
//! starts there records it as a late response before it takes any run:
//!
//! ```text
//! unrecorded ─▶ encrypted file (0600, synced, renamed into place) ─▶ late response ─▶ removed
//! ```
//!
//! Responses may hold confidential data, so they are encrypted as secrets are. A file that cannot
//! be decrypted stays where it is: the effect stays in doubt.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use semel_model::{EffectId, RunId};
use semel_store::late_responses::{self, LateResponse};
use semel_store::{Cell, ReadError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::vault::MasterKeys;

/// What the names of such files end with.
const ENDING: &str = ".outcome";

/// A response that is not recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Unrecorded {
    run: RunId,
    epoch: i64,
    effect: EffectId,
    attempt: i32,
    response: Value,
}

impl Unrecorded {
    pub(crate) fn new(run: RunId, epoch: i64, late: &LateResponse) -> Self {
        Self {
            run,
            epoch,
            effect: late.effect,
            attempt: late.attempt,
            response: late.response.clone(),
        }
    }

    fn file_name(&self) -> String {
        format!("{}-{}{ENDING}", self.effect, self.attempt)
    }

    fn late(&self) -> LateResponse {
        LateResponse {
            effect: self.effect,
            attempt: self.attempt,
            response: self.response.clone(),
        }
    }
}

/// Writes a response to the state folder. When this returns, it is on disk.
pub(crate) fn leave(folder: &Path, masters: &MasterKeys, answer: &Unrecorded) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let name = answer.file_name();
    let text = serde_json::to_vec(answer)?;
    let sealed = masters.seal(name.as_bytes(), &text);
    let begun = folder.join(format!("{name}.begun"));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&begun)?;
    file.write_all(&sealed)?;
    file.sync_all()?;
    fs::rename(&begun, folder.join(&name))?;
    File::open(folder)?.sync_all()
}

/// Records every response that an earlier process left in the state folder.
///
/// # Errors
///
/// Where the database does not take one: it stays on disk.
pub(crate) async fn record_spilled(
    cell: &Cell,
    folder: &Path,
    masters: &MasterKeys,
) -> Result<usize, ReadError> {
    let mut handed = 0;
    for path in list(folder) {
        let Some(answer) = read(&path, masters) else {
            tracing::error!(file = %path.display(),
                "cannot decrypt a response that an earlier process left on disk: its effect stays in doubt");
            continue;
        };
        match late_responses::record_late_response(
            cell.of(answer.run),
            answer.run,
            answer.epoch,
            &answer.late(),
        )
        .await
        {
            Ok(()) => {}
            Err(error) if error.refusal().is_some() => {
                tracing::error!(file = %path.display(), run.id = %answer.run, %error,
                    "the database refuses a response that an earlier process left on disk: its effect stays in doubt");
                if let Err(error) = fs::rename(&path, path.with_extension("refused")) {
                    tracing::warn!(file = %path.display(), %error, "cannot rename the file; it stays as it is");
                }
                continue;
            }
            Err(error) => return Err(error),
        }
        tracing::info!(run.id = %answer.run, effect.id = %answer.effect,
            "recorded a response that an earlier process left on disk");
        if let Err(error) = fs::remove_file(&path) {
            // Recording it again changes nothing.
            tracing::warn!(file = %path.display(), %error, "cannot remove a file whose response is recorded");
        }
        handed += 1;
    }
    Ok(handed)
}

fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            tracing::error!(folder = %folder.display(), %error, "the state folder cannot be read");
            return Vec::new();
        }
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_answer = |path: &PathBuf| path.to_string_lossy().ends_with(ENDING);
    let mut paths: Vec<PathBuf> = paths.filter(is_answer).collect();
    paths.sort();
    paths
}

fn read(path: &Path, masters: &MasterKeys) -> Option<Unrecorded> {
    let name = path.file_name()?.to_str()?;
    let sealed = fs::read(path).ok()?;
    let text = masters.open(name.as_bytes(), &sealed)?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::secret::Secret;

    fn answer() -> Unrecorded {
        let run = RunId::from_uuid(Uuid::nil());
        Unrecorded {
            run,
            epoch: 7,
            effect: EffectId::derive(run, "pay", "", 0),
            attempt: 2,
            response: json!({ "json": { "id": "ch_1" } }),
        }
    }

    fn masters() -> MasterKeys {
        MasterKeys::derive(&Secret::from_hex(&Secret::generate()).unwrap())
    }

    #[test]
    fn a_response_is_read_back_with_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("state");
        let ours = masters();

        leave(&place, &ours, &answer()).unwrap();
        leave(&place, &ours, &answer()).unwrap();

        let paths = list(&place);
        assert_eq!(paths.len(), 1, "the same answer is one file");
        assert_eq!(read(&paths[0], &ours), Some(answer()));
        assert_eq!(read(&paths[0], &masters()), None);
        let sealed = fs::read(&paths[0]).unwrap();
        assert!(!String::from_utf8_lossy(&sealed).contains("ch_1"));
        let mode = fs::metadata(&paths[0]).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_was_moved_or_cut_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let ours = masters();
        leave(folder.path(), &ours, &answer()).unwrap();
        let path = list(folder.path()).remove(0);
        let elsewhere = folder.path().join("eff_other-1.outcome");

        fs::copy(&path, &elsewhere).unwrap();
        let sealed = fs::read(&path).unwrap();
        fs::write(&path, &sealed[..sealed.len() - 1]).unwrap();

        assert_eq!(read(&elsewhere, &ours), None);
        assert_eq!(read(&path, &ours), None);
    }
}
