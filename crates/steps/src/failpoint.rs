//! Failpoints: places where the test build can be held, killed, paused or cut off.
//!
//! Without debug assertions this is nothing. With them, each point reports to the harness that
//! listens at the socket named by `SEMEL_FAULTS` and continues when the harness says so; whatever
//! the harness does meanwhile (a signal to the process, a cut wire, a killed server) happens
//! exactly there.

/// Holds here for as long as a harness wants. `subject` tells whose turn it is: a run's key.
#[cfg(not(debug_assertions))]
#[inline]
pub async fn failpoint(_name: &'static str, _subject: &str) {}

/// Holds here for as long as a harness wants. `subject` tells whose turn it is: a run's key.
#[cfg(debug_assertions)]
pub async fn failpoint(name: &'static str, subject: &str) {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    let Some(path) = std::env::var_os("SEMEL_FAULTS") else {
        return;
    };
    let Ok(mut socket) = tokio::net::UnixStream::connect(path).await else {
        return;
    };
    let report = format!("{} {name} {subject}\n", std::process::id());
    if socket.write_all(report.as_bytes()).await.is_err() {
        return;
    }
    // A harness that goes away lets go.
    let _ = BufReader::new(socket).read_line(&mut String::new()).await;
}
