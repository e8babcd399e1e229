//! The peer: the outside world that flows act on, in a process of its own.

use std::path::PathBuf;
use std::process::ExitCode;

/// Serves until standard input closes. The only argument, if any, is the file of the effects.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let log = std::env::args_os().nth(1).map(PathBuf::from);
    match semel_testkit::peer::serve(log.as_deref()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("semel-peer: {error:#}");
            ExitCode::FAILURE
        }
    }
}
