//! Our side of the marker's script: what it is given and what it says.

use semel_model::connection::SshTarget;
use semel_model::request::SshRequest;
use semel_model::{EffectId, Fault};

use super::connection::Heard;
use super::{Finished, OUTPUT_BYTES_MAX, command};

/// The script, for any POSIX shell.
const SCRIPT: &str = include_str!("marker.sh");

/// What each answer of the script begins with. A shell's greeting may stand before it.
const SAYS: &str = "semel-marker/1 ";

/// What is wanted of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// Run the command, or wait for the process that runs it.
    Run,
    /// Start it and go.
    Start,
    /// Tell what happened to it.
    Probe,
}

/// What the script said.
pub(super) enum Said {
    Done(Finished),
    Started(u32),
    Running,
    Absent,
    Lost,
    /// Nothing was begun.
    Broken(String),
    Nothing,
}

/// The command line that runs the script.
pub(super) fn command(
    request: &SshRequest,
    target: &SshTarget,
    key: EffectId,
    want: Want,
) -> Result<String, Fault> {
    let callback = request
        .detach
        .as_ref()
        .map(|detach| detach.callback.as_str());
    if callback.is_some_and(|url| !is_plain_url(url)) {
        let message = "the callback's address cannot be passed on";
        return Err(Fault::permanent("command-unfit", message));
    }
    let input_bytes = request.stdin.as_ref().map_or(0, String::len);
    let patience = request.timeout.as_millis() / 1_000;
    let (want, words) = match want {
        Want::Run => ("run", command::words(request, target)?),
        Want::Start => ("start", command::words(request, target)?),
        Want::Probe => ("probe", String::new()),
    };
    let script = command::quote(SCRIPT)?;
    Ok(format!(
        "exec /bin/sh -c {script} semel {key} {want} {input_bytes} {patience} {words}"
    ))
}

/// No blank, quote or backslash: the script passes it on to programs with a syntax of their own.
fn is_plain_url(url: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"\"'\\`$".contains(&byte);
    url.starts_with("http") && url.bytes().all(plain)
}

/// What the script reads: the callback's address, which no list of processes shows, then the
/// command's own input.
pub(super) fn input(request: &SshRequest) -> String {
    let callback = request
        .detach
        .as_ref()
        .map(|detach| detach.callback.as_str());
    let stdin = request.stdin.as_deref().unwrap_or_default();
    format!("{}\n{stdin}", callback.unwrap_or_default())
}

/// Reads the script's answer.
pub(super) fn read(heard: &Heard) -> Said {
    let said = find(&heard.stdout).and_then(|(line, rest)| {
        let mut words = line.split(' ');
        match words.next()? {
            "done" => read_done(words, rest),
            "started" => words.next()?.parse().ok().map(Said::Started),
            "running" => Some(Said::Running),
            "absent" => Some(Said::Absent),
            "lost" => Some(Said::Lost),
            "broken" => Some(Said::Broken(words.collect::<Vec<_>>().join(" "))),
            _ => None,
        }
    });
    said.unwrap_or(Said::Nothing)
}

/// The line that the script said, and what follows it.
fn find(stdout: &[u8]) -> Option<(&str, &[u8])> {
    let says = SAYS.as_bytes();
    let starts = |at: &usize| *at == 0 || stdout[at - 1] == b'\n';
    let at = (0..stdout.len()).find(|at| starts(at) && stdout[*at..].starts_with(says))?;
    let rest = &stdout[at + says.len()..];
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    Some((std::str::from_utf8(&rest[..end]).ok()?, &rest[end + 1..]))
}

/// An answer that breaks off is no answer.
fn read_done<'a>(mut words: impl Iterator<Item = &'a str>, rest: &[u8]) -> Option<Said> {
    let exit = words.next()?.parse().ok()?;
    let stdout_bytes: usize = words.next()?.parse().ok()?;
    let stderr_bytes: usize = words.next()?.parse().ok()?;
    let repeated = words.next()? == "repeated";
    let split = stdout_bytes.min(OUTPUT_BYTES_MAX);
    let end = split + stderr_bytes.min(OUTPUT_BYTES_MAX);
    Some(Said::Done(Finished {
        exit,
        stdout: rest.get(..split)?.to_vec(),
        stderr: rest.get(split..end)?.to_vec(),
        truncated: stdout_bytes.max(stderr_bytes) > OUTPUT_BYTES_MAX,
        repeated,
    }))
}
