//! Asking for the key: first, done before, held or in doubt.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use semel_api::types::{BeginOnce, BegunOnce, OnceEffect, OnceHold};
use semel_api::{Client, ClientError};
use semel_engine::boottime::Boottime;
use semel_model::id::digest;
use semel_model::named_effect::OnDoubt;
use semel_model::storable::excerpt;
use semel_model::{HolderId, NamedEffectState};
use serde_json::json;
use tokio::time::Instant;

use super::job::Job;
use super::signals::Signals;
use super::{Perform, stored};
use crate::answer::{Answer, Problem};
use crate::code;
use crate::commands::worker::passes;
use crate::context::Context;
use crate::hardening::forbid_core_dumps;
use crate::outcome::Outcome;
use crate::remote;
use crate::text::{ago, printable};

/// How often a server is tried that cannot be connected to.
const CONNECT_TRIES: u32 = 5;

/// How often a begin is sent that may have been recorded, under the same nonce each time: if this
/// process gave up, its hold would become a doubt about a command that never ran.
const BEGIN_TRIES: u32 = 10;

/// The first and the longest pause after a begin without an answer.
const BEGIN_REST: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// How long the answer to a begin is awaited after a signal.
const FINISH_PATIENCE: Duration = Duration::from_secs(5);

/// The first and the longest pause between two looks at a key that another process holds.
const LOOK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// The most characters of this process's name.
const NAME_CHARS_MAX: usize = 120;

/// What the key turned out to be.
enum Key {
    /// This process's, whose lease counts from when it was asked for.
    First(OnceHold, Boottime),
    Done(Box<OnceEffect>),
}

pub(super) async fn run(ctx: &Context, key: &str, perform: &Perform) -> Result<Answer, Problem> {
    forbid_core_dumps();
    let client = remote::client(ctx)?;
    let mut signals = Signals::catch()?;
    let begin = BeginOnce {
        scope: perform.scope.clone(),
        key: key.to_owned(),
        holder: HolderId::generate(),
        holder_name: process_name(),
        request: request(&perform.command),
        lease: Some(perform.lease),
        on_doubt: Some(perform.on_doubt),
        keep: Some(perform.keep),
    };
    let (found, stopped) = tokio::select! {
        found = obtain(&client, &begin, perform.wait.to_duration()) => (found, None),
        // The answer that is on its way is awaited: what was begun has to be ended.
        signal = signals.next() => (finish(&client, &begin, signal).await, Some(signal)),
    };
    match (found?, stopped) {
        (Key::Done(effect), None) => Ok(stored::repeat(ctx, &effect)),
        (Key::Done(_), Some(signal)) => Err(stored::stopped(signal)),
        (Key::First(hold, since), stopped) => {
            let failed = perform.failed.clone();
            let job = Job::new(client, begin, (hold, since), failed, ctx.reader);
            match stopped {
                Some(signal) => job.abandon(signal).await,
                None => job.carry_out(&perform.command, signals).await,
            }
        }
    }
}

/// Asks once more, after a signal: a begin that was sent may have been recorded.
async fn finish(client: &Client, begin: &BeginOnce, signal: i32) -> Result<Key, Problem> {
    let asking = begin_surely(client, begin);
    let Ok(begun) = tokio::time::timeout(FINISH_PATIENCE, asking).await else {
        return Err(stored::stopped(signal));
    };
    let (begun, since) = begun?;
    match begun.hold {
        Some(hold) => Ok(Key::First(hold, since)),
        None => Err(stored::stopped(signal)),
    }
}

/// Asks for the key until it is this process's, or done, or the time is over.
async fn obtain(client: &Client, begin: &BeginOnce, wait: Duration) -> Result<Key, Problem> {
    let deadline = Instant::now() + wait;
    let mut pause = LOOK.0;
    loop {
        let (begun, since) = begin_surely(client, begin).await?;
        let effect = match (begun.hold, begun.effect) {
            (Some(hold), _) => return Ok(Key::First(hold, since)),
            (None, Some(effect)) => effect,
            (None, None) => {
                return Err(Problem::local(
                    "the server's answer has neither hold nor effect",
                ));
            }
        };
        let over = Instant::now() + pause > deadline;
        match effect.state {
            NamedEffectState::Done => return Ok(Key::Done(Box::new(effect))),
            NamedEffectState::Pending | NamedEffectState::Failed | NamedEffectState::Undoing
                if over =>
            {
                return Err(held(&effect));
            }
            NamedEffectState::InDoubt if over || !follows(begin, &effect) => {
                return Err(in_doubt(begin, &effect));
            }
            NamedEffectState::Pending
            | NamedEffectState::InDoubt
            | NamedEffectState::Failed
            | NamedEffectState::Undoing => {}
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LOOK.1);
    }
}

/// Whether this process may follow one that was lost, once its time is over.
fn follows(begin: &BeginOnce, effect: &OnceEffect) -> bool {
    begin.on_doubt == Some(OnDoubt::Retry) && effect.on_doubt == Some(OnDoubt::Retry)
}

/// A begin whose answer is lost is sent again under the same nonce, and gets the same answer. After
/// the last try nothing has run, and nothing will.
async fn begin_surely(
    client: &Client,
    begin: &BeginOnce,
) -> Result<(BegunOnce, Boottime), ClientError> {
    let (mut rest, mut tries, mut most) = (BEGIN_REST.0, 1, CONNECT_TRIES);
    loop {
        let sent = Boottime::now();
        let error = match client.begin_once(begin).await {
            Ok(begun) => return Ok((begun, sent)),
            Err(error) => error,
        };
        if !is_unsent(&error) {
            most = BEGIN_TRIES;
        }
        if tries >= most || !passes(&error) {
            return Err(error);
        }
        tokio::time::sleep(rest).await;
        (rest, tries) = ((rest * 2).min(BEGIN_REST.1), tries + 1);
    }
}

/// Whether the request surely did not reach the server.
fn is_unsent(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable(error) => error.is_connect(),
        ClientError::Address(_) => true,
        ClientError::Malformed { .. } | ClientError::Problem(_) => false,
    }
}

fn held(effect: &OnceEffect) -> Problem {
    let message = format!("{} holds the key: nothing was run", holder(effect));
    let problem = Problem::new(Outcome::Running, code::ONCE_HELD, message);
    let hint = "repeat the command later, or wait longer with --wait";
    problem.hint(hint).next(stored::show_line(effect))
}

fn in_doubt(begin: &BeginOnce, effect: &OnceEffect) -> Problem {
    let outcome = match begin.on_doubt {
        Some(OnDoubt::Fail) => Outcome::Failed,
        Some(OnDoubt::Ask | OnDoubt::Retry) | None => Outcome::InDoubt,
    };
    let message = format!(
        "whether this happened is in doubt: {} held the key; nothing was run",
        holder(effect)
    );
    let hint = match (effect.retry_at, follows(begin, effect)) {
        (Some(at), true) => format!("the command may run again at {at}; wait longer with --wait"),
        (_, _) => format!(
            "check the destination for {}; then type: {}",
            effect.effect_key,
            stored::settle_line(effect)
        ),
    };
    let problem = Problem::new(outcome, code::ONCE_IN_DOUBT, message);
    problem.hint(hint).next(stored::show_line(effect))
}

/// The latest holder and its last heartbeat, for people.
fn holder(effect: &OnceEffect) -> String {
    let name = match (&effect.holder_name, effect.run) {
        (Some(name), _) => printable(name),
        (None, Some(run)) => run.to_string(),
        (None, None) => "another holder".to_owned(),
    };
    format!(
        "{name} (last heartbeat {}, {})",
        effect.heartbeat_at,
        ago(effect.heartbeat_at)
    )
}

/// A digest of the command line: the words themselves stay on this machine.
fn request(command: &[OsString]) -> serde_json::Value {
    let words: Vec<&[u8]> = command.iter().map(|word| word.as_bytes()).collect();
    json!({ "command": hex::encode(digest("semel.once.command.1", &words)) })
}

fn process_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = match host.trim() {
        "" => "unknown host",
        host => host,
    };
    let name = format!("{host}, process {}", std::process::id());
    excerpt(&name, NAME_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_command_line_stay_here_and_count() {
        let words = |words: &[&str]| request(&words.iter().map(OsString::from).collect::<Vec<_>>());

        assert_eq!(words(&["./pay", "4711"]), words(&["./pay", "4711"]));
        assert_ne!(words(&["./pay", "47", "11"]), words(&["./pay", "4711"]));
        assert!(!words(&["./pay", "hush"]).to_string().contains("hush"));
    }
}
