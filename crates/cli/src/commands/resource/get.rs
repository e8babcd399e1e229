//! `semel resource get`: the bytes, to a file or to stdout.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use semel_api::client::Content;
use semel_api::types::Resource;
use semel_model::ResourceRef;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::output::{Reader, Stdout, Transfer};
use crate::remote;

/// Fetch the bytes of a resource.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel resource get res://9f86d0… --output report.json
  semel resource get res://9f86d0… | jq .")]
pub(crate) struct Arguments {
    /// The resource, as it stands in a run: res://, or its 64 digits alone.
    #[arg(value_name = "REF", value_parser = read_ref)]
    resource: ResourceRef,
    /// The file to write to; stdout by default.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn read_ref(text: &str) -> Result<ResourceRef, String> {
    let digits = text.strip_prefix("res://").unwrap_or(text);
    format!("res://{digits}")
        .parse()
        .map_err(|error: semel_model::resource::ResourceRefError| error.to_string())
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    if ctx.reader == Reader::Program && arguments.output.is_none() {
        return Err(Problem::usage("--json needs a file for the bytes").hint("add --output FILE"));
    }
    let client = remote::client(ctx)?;
    let resource = client.get_resource(arguments.resource).await?;
    let content = client.open_resource(arguments.resource).await?;
    match &arguments.output {
        Some(path) => to_file(ctx, path, &resource, content).await,
        None => {
            write_all(ctx, &mut Stdout, "stdout", &resource, content).await?;
            Ok(Answer::done(&resource, ""))
        }
    }
}

/// The file appears whole or not at all.
async fn to_file(
    ctx: &Context,
    path: &Path,
    resource: &Resource,
    content: Content,
) -> Result<Answer, Problem> {
    let (shown, mut part) = (path.display().to_string(), path.as_os_str().to_owned());
    part.push(".part");
    let part = PathBuf::from(part);
    let mut file = File::create(&part).map_err(|error| cannot_write(&shown, &error))?;
    let written = write_all(ctx, &mut file, &shown, resource, content).await;
    let kept = written.and_then(|()| {
        let kept = file.sync_all().and_then(|()| std::fs::rename(&part, path));
        kept.map_err(|error| cannot_write(&shown, &error))
    });
    if let Err(problem) = kept {
        // What is left of it may go as well as it may stay.
        let _ = std::fs::remove_file(&part);
        return Err(problem);
    }
    let data = json!({"resource": resource, "file": shown});
    let text = format!("{shown}: {} bytes", resource.bytes);
    Ok(Answer::done(data, text))
}

async fn write_all(
    ctx: &Context,
    to: &mut impl Write,
    place: &str,
    resource: &Resource,
    mut content: Content,
) -> Result<(), Problem> {
    let progress = Transfer::begin(ctx.reader, content.bytes().unwrap_or(resource.bytes));
    let mut hash = Sha256::new();
    while let Some(piece) = content.next().await? {
        hash.update(&piece);
        match to.write_all(&piece) {
            Ok(()) => {}
            // The reader has gone away, which is no error of ours.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(cannot_write(place, &error)),
        }
        progress.advance(piece.len() as u64);
    }
    to.flush().map_err(|error| cannot_write(place, &error))?;
    let digest: [u8; 32] = hash.finalize().into();
    if digest == *resource.resource.digest() {
        return Ok(());
    }
    Err(Problem::local("the bytes do not match their digest")
        .hint("fetch it again; if it fails again, the resource store has damaged them"))
}

fn cannot_write(place: &str, error: &std::io::Error) -> Problem {
    Problem::local(format!("cannot write to {place}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_named_with_or_without_its_scheme() {
        let digits = "ab".repeat(32);

        assert_eq!(read_ref(&digits), read_ref(&format!("res://{digits}")));
        assert!(read_ref("res://abc").is_err());
    }
}
