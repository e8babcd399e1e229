//! Where resources are kept: a folder, or a bucket of an S3-compatible store.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use semel_model::SecretText;

/// How long a bucket may be silent. An object may take as long as it needs while bytes flow.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// How long a bucket is asked again before it counts as unreachable; the step's own retry policy
/// takes over from there.
const RETRY_PATIENCE: Duration = Duration::from_secs(10);

/// How often, in that time.
const RETRIES_MAX: usize = 3;

/// Where resources are kept.
#[derive(Clone, Debug)]
pub enum ResourceLocation {
    /// A folder of this machine, or one that every server mounts.
    Folder(PathBuf),
    /// A bucket.
    Bucket(Bucket),
}

/// A bucket of an S3-compatible store.
#[derive(Clone)]
pub struct Bucket {
    /// The bucket.
    pub bucket: String,
    /// What every name begins with; may be empty.
    pub prefix: String,
    /// The store's address where it is not Amazon's. With `http://` the exchange is in the clear.
    pub endpoint: Option<String>,
    /// The region.
    pub region: String,
    /// Who authenticates, and with which key. Absent: what the machine itself was given.
    pub keys: Option<(String, SecretText)>,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket")
            .field("bucket", &self.bucket)
            .field("prefix", &self.prefix)
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

/// Why a place cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ResourceLocationError {
    /// The folder is not there and cannot be made.
    #[error("the folder {} cannot be used", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The text names no bucket.
    #[error("a bucket is written s3://BUCKET or s3://BUCKET/PREFIX")]
    Address,
    /// What was said of the store does not fit together.
    #[error("the store cannot be used")]
    Store(#[source] object_store::Error),
}

impl ResourceLocation {
    /// Reads a folder's path, or `s3://BUCKET/PREFIX`; what else is to be said of a bucket comes
    /// from the caller.
    ///
    /// # Errors
    ///
    /// If the text names no bucket.
    pub fn parse(text: &str) -> Result<Self, ResourceLocationError> {
        let Some(rest) = text.strip_prefix("s3://") else {
            return Ok(Self::Folder(PathBuf::from(text)));
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(ResourceLocationError::Address);
        }
        Ok(Self::Bucket(Bucket {
            bucket: bucket.to_owned(),
            prefix: prefix.trim_matches('/').to_owned(),
            endpoint: None,
            region: "us-east-1".to_owned(),
            keys: None,
        }))
    }

    /// The store behind it, and the folder where it is one.
    pub(super) fn open(
        &self,
    ) -> Result<(Arc<dyn ObjectStore>, Option<PathBuf>), ResourceLocationError> {
        match self {
            Self::Folder(path) => {
                let store = open_folder(path)?;
                Ok((Arc::new(store), Some(path.clone())))
            }
            Self::Bucket(bucket) => {
                Ok((bucket.open().map_err(ResourceLocationError::Store)?, None))
            }
        }
    }
}

fn open_folder(path: &PathBuf) -> Result<LocalFileSystem, ResourceLocationError> {
    make_folder(path).map_err(|error| ResourceLocationError::Folder {
        path: path.clone(),
        error,
    })?;
    let store = LocalFileSystem::new_with_prefix(path).map_err(ResourceLocationError::Store)?;
    Ok(store.with_fsync(true))
}

/// Outputs of runs are for the account that runs the server, and for no other on the machine.
fn make_folder(path: &PathBuf) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

impl Bucket {
    fn open(&self) -> object_store::Result<Arc<dyn ObjectStore>> {
        let in_the_clear = self
            .endpoint
            .as_deref()
            .is_some_and(|endpoint| endpoint.starts_with("http://"));
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&self.bucket)
            .with_region(&self.region)
            .with_virtual_hosted_style_request(false)
            .with_client_options(
                ClientOptions::new()
                    .with_allow_http(in_the_clear)
                    .with_timeout_disabled()
                    .with_read_timeout(SILENCE_MAX),
            )
            .with_retry(RetryConfig {
                max_retries: RETRIES_MAX,
                retry_timeout: RETRY_PATIENCE,
                ..RetryConfig::default()
            });
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some((access_key, secret_key)) = &self.keys {
            builder = builder
                .with_access_key_id(access_key)
                .with_secret_access_key(secret_key.reveal());
        }
        let store = builder.build()?;
        Ok(match self.prefix.as_str() {
            "" => Arc::new(store),
            prefix => Arc::new(PrefixStore::new(store, Path::from(prefix))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_may_have_a_prefix() {
        let Ok(ResourceLocation::Bucket(bucket)) =
            ResourceLocation::parse("s3://outputs/semel/eu/")
        else {
            panic!("a bucket");
        };

        assert_eq!((&*bucket.bucket, &*bucket.prefix), ("outputs", "semel/eu"));
        assert!(matches!(
            ResourceLocation::parse("s3:///x"),
            Err(ResourceLocationError::Address)
        ));
        assert!(matches!(
            ResourceLocation::parse("var/out"),
            Ok(ResourceLocation::Folder(_))
        ));
    }

    #[test]
    fn the_key_of_a_bucket_is_not_shown() {
        let bucket = Bucket {
            bucket: "outputs".to_owned(),
            prefix: String::new(),
            endpoint: None,
            region: "eu-1".to_owned(),
            keys: Some(("who".to_owned(), SecretText::new("hush".to_owned()))),
        };

        assert!(!format!("{bucket:?}").contains("hush"));
    }
}
