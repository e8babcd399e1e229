//! `semel resource put`: a file, for runs to use.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use semel_api::types::UploadResource;
use semel_model::{ResourceRef, Span};
use sha2::{Digest as _, Sha256};

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::views;

/// How much of a file is read at a time.
const PIECE_BYTES: usize = 64 << 10;

/// Upload a file, so that runs can send it or read a list from it.
///
/// The name is made from the bytes: uploading the same file again changes nothing but how long it is
/// kept.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  semel resource put customers.json --type application/json --keep 30d
  semel run start remind --input '{\"customers\": \"res://…\"}'")]
pub(crate) struct Arguments {
    /// The file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Its media type.
    #[arg(
        long = "type",
        value_name = "TYPE",
        default_value = "application/octet-stream"
    )]
    media_type: String,
    /// What people call it; the file's name by default.
    #[arg(long)]
    name: Option<String>,
    /// How long it is kept.
    #[arg(long, default_value = "7d")]
    keep: Span,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let path = &arguments.file;
    let client = remote::client(ctx)?;
    let wanted = name_of(path).map_err(|error| unreadable(path, &error))?;
    let file = tokio::fs::File::open(path);
    let file = file.await.map_err(|error| unreadable(path, &error))?;
    let base = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let how = UploadResource {
        name: arguments.name.clone().or(base),
        keep: Some(arguments.keep),
    };
    let kept = client
        .upload_resource(wanted, &how, &arguments.media_type, file)
        .await?;
    let text = views::resource::table(std::slice::from_ref(&kept), ctx.style);
    Ok(Answer::done(&kept, text).next(format!("semel resource get {}", kept.resource)))
}

/// The resource that the bytes of a file are.
fn name_of(path: &Path) -> io::Result<ResourceRef> {
    let (mut file, mut hasher) = (File::open(path)?, Sha256::new());
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut piece)? {
            0 => break,
            read => hasher.update(&piece[..read]),
        }
    }
    Ok(ResourceRef::from_digest(hasher.finalize().into()))
}

fn unreadable(path: &Path, error: &io::Error) -> Problem {
    Problem::usage(format!("{} cannot be read: {error}", path.display()))
}
