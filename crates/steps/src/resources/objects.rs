//! Objects by name, whole or in part, in a folder or a bucket: for what Semel itself writes outside the
//! database. Outputs of runs are named by their content and have [`StoredFiles`](super::StoredFiles).

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt as _};
use uuid::Uuid;

use super::place::{ResourceLocation, ResourceLocationError};

/// Objects in a folder or a bucket.
#[derive(Clone, Debug)]
pub struct ObjectFolder {
    store: Arc<dyn ObjectStore>,
    /// The folder, where it is one.
    folder: Option<PathBuf>,
}

impl ObjectFolder {
    /// The objects at a place. A folder is made where it is missing; a bucket is not asked yet.
    ///
    /// # Errors
    ///
    /// If the place cannot be used.
    pub fn open(place: &ResourceLocation) -> Result<Self, ResourceLocationError> {
        let (store, folder) = place.open()?;
        Ok(Self { store, folder })
    }

    /// Writes an object, which appears at once and complete. A name is used once: the caller makes a new one for
    /// each object, so that a request that was answered too late and is repeated changes nothing.
    ///
    /// # Errors
    ///
    /// If the place did not take it, or did not say so.
    pub async fn write(&self, name: &str, bytes: Bytes) -> io::Result<()> {
        self.store.put(&Path::from(name), bytes.into()).await?;
        Ok(())
    }

    /// Reads an object whole.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if there is none; another if the place did not answer.
    pub async fn read(&self, name: &str) -> io::Result<Bytes> {
        let object = self.store.get(&Path::from(name)).await?;
        Ok(object.bytes().await?)
    }

    /// Reads some bytes of an object.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if there is none; another if the place did not answer.
    pub async fn read_range(&self, name: &str, range: Range<u64>) -> io::Result<Bytes> {
        Ok(self.store.get_range(&Path::from(name), range).await?)
    }

    /// Removes an object; nothing where there is none.
    ///
    /// # Errors
    ///
    /// If the place did not do it, or did not say so.
    pub async fn remove(&self, name: &str) -> io::Result<()> {
        match self.store.delete(&Path::from(name)).await {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        match &self.folder {
            Some(folder) => remove_begun(&folder.join(name)).await,
            None => Ok(()),
        }
    }

    /// Writes, reads and removes a small object, to see that the place can be used.
    ///
    /// # Errors
    ///
    /// If it cannot.
    pub async fn try_out(&self) -> io::Result<()> {
        let name = format!("try/{}", Uuid::now_v7().simple());
        let bytes = Bytes::from_static(b"Semel tries whether it can write here.");
        self.write(&name, bytes.clone()).await?;
        let read = self.read(&name).await?;
        self.remove(&name).await?;
        match read == bytes {
            true => Ok(()),
            false => Err(io::Error::other("it gives back other bytes than it took")),
        }
    }
}

/// Removes what a crash in the midst of writing an object left beside it: a file of its name, `#` and a number.
async fn remove_begun(path: &std::path::Path) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    let mut entries = match tokio::fs::read_dir(folder).await {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let begin = format!("{}#", name.to_string_lossy());
    while let Some(entry) = entries.next_entry().await? {
        if entry.file_name().to_string_lossy().starts_with(&begin) {
            tokio::fs::remove_file(entry.path()).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_crash_left_beside_an_object_goes_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let objects = ObjectFolder::open(&ResourceLocation::Folder(folder.path().into())).unwrap();
        for name in ["a/one", "a/one-more"] {
            objects.write(name, Bytes::from_static(b"x")).await.unwrap();
        }
        std::fs::write(folder.path().join("a/one#1"), "begun").unwrap();

        objects.remove("a/one").await.unwrap();

        let left = std::fs::read_dir(folder.path().join("a")).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["one-more"]);
        objects.remove("b/none").await.unwrap();
    }
}
