//! Where the server keeps large outputs, as it is configured.

use std::path::Path;
use std::sync::Arc;

use semel_engine::{Bucket, NoResources, ResourceLocation, ResourceStore, StoredFiles};
use semel_model::SecretText;

use crate::answer::{Problem, chain};
use crate::config::Key;
use crate::context::Context;

/// What is configured; where nothing is, whatever needs a resource fails and says why.
pub(crate) fn configured(
    ctx: &Context,
    flag: Option<&str>,
) -> Result<Arc<dyn ResourceStore>, Problem> {
    let Some(setting) = ctx.config.find(Key::Resources, flag) else {
        return Ok(Arc::new(NoResources));
    };
    open(&place(ctx, Key::Resources, &setting.value)?)
}

/// The place that a setting names, with what else is said of a bucket.
pub(crate) fn place(ctx: &Context, key: Key, value: &str) -> Result<ResourceLocation, Problem> {
    match ResourceLocation::parse(value) {
        Ok(ResourceLocation::Folder(path)) => Ok(ResourceLocation::Folder(path)),
        Ok(ResourceLocation::Bucket(bucket)) => {
            Ok(ResourceLocation::Bucket(complete(ctx, bucket)?))
        }
        Err(error) => Err(unusable(key, &error)),
    }
}

/// A folder.
pub(crate) fn in_folder(folder: &Path) -> Result<Arc<dyn ResourceStore>, Problem> {
    open(&ResourceLocation::Folder(folder.to_owned()))
}

fn open(place: &ResourceLocation) -> Result<Arc<dyn ResourceStore>, Problem> {
    match StoredFiles::open(place) {
        Ok(shelf) => Ok(Arc::new(shelf)),
        Err(error) => Err(unusable(Key::Resources, &error)),
    }
}

/// What else is said of the bucket.
fn complete(ctx: &Context, mut bucket: Bucket) -> Result<Bucket, Problem> {
    let find = |key| ctx.config.find(key, None).map(|setting| setting.value);
    bucket.endpoint = find(Key::S3Endpoint);
    if let Some(region) = find(Key::S3Region) {
        bucket.region = region;
    }
    bucket.keys = match (find(Key::S3Access), find(Key::S3Secret)) {
        (Some(access), Some(secret)) => Some((access, SecretText::new(secret))),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            return Err(Problem::usage("only one of the bucket's keys is set")
                .hint("set both SEMEL_S3_ACCESS_KEY and SEMEL_S3_SECRET_KEY, or neither where the machine has a role"));
        }
    };
    Ok(bucket)
}

/// A place that cannot be used, and what to say instead.
pub(crate) fn unusable(key: Key, error: &dyn std::error::Error) -> Problem {
    let name = key.name();
    Problem::usage(format!("{name} cannot be used: {}", chain(error))).hint(
        "give a folder, or s3://BUCKET/PREFIX with SEMEL_S3_ENDPOINT, SEMEL_S3_REGION and keys",
    )
}
