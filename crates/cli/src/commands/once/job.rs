//! One hold on a key: the command runs, the lease is kept, and the end is reported.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use semel_api::types::{BeginOnce, FailOnce, FinishOnce, HeartbeatOnce, OnceHold};
use semel_api::{Client, ClientError};
use semel_engine::boottime::Boottime;
use semel_model::named_effect::OnDoubt;
use serde_json::json;

use super::FailedCodes;
use super::lease::Lease;
use super::process::{Group, KILL, Process};
use super::report::Ending;
use super::signals::Signals;
use super::stored::{self, Written};
use crate::answer::{Answer, Problem, chain};
use crate::code;
use crate::outcome::Outcome;
use crate::output::Reader;

/// The exit code of a command that could not be started, as shells have it.
const NOT_STARTED: u8 = 127;

/// How long a command whose lease is lost has between TERM and KILL, at most.
const KILL_AFTER_MAX: Duration = Duration::from_secs(5);

const TERM: i32 = 15;

/// A hold on a key, and what it is for.
pub(super) struct Job {
    client: Client,
    begin: BeginOnce,
    hold: OnceHold,
    failed: FailedCodes,
    reader: Reader,
    /// When the hold was asked for: its lease counts from then.
    since: Boottime,
}

impl Job {
    pub(super) fn new(
        client: Client,
        begin: BeginOnce,
        (hold, since): (OnceHold, Boottime),
        failed: FailedCodes,
        reader: Reader,
    ) -> Self {
        Self {
            since,
            client,
            begin,
            hold,
            failed,
            reader,
        }
    }

    /// Ends a hold under which nothing was run, because of a signal.
    pub(super) async fn abandon(self, signal: i32) -> Result<Answer, Problem> {
        let message = format!("signal {signal} came before the command was started");
        let ending = self.failure("not-started", message, false);
        // What cannot be reported now is a doubt later: the signal is obeyed all the same.
        let _ = tokio::time::timeout(
            KILL_AFTER_MAX,
            ending.send(&self.client, self.hold.lease.to_duration()),
        )
        .await;
        Err(stored::stopped(signal))
    }

    /// Runs the command and reports its end.
    pub(super) async fn carry_out(
        self,
        words: &[OsString],
        mut signals: Signals,
    ) -> Result<Answer, Problem> {
        let supervised = self.begin.on_doubt == Some(OnDoubt::Retry);
        let key = self.hold.effect_key;
        let process = match Process::start(words, key, supervised, self.reader) {
            Ok(process) => process,
            Err(error) => return self.not_started(words, &error).await,
        };
        let (status, written) = self.attend(process, supervised, &mut signals).await;
        let end = self.judge(status, &written);
        let ending = self.ending(&end, &written);
        tokio::select! {
            sent = ending.send(&self.client, self.hold.lease.to_duration()) => self.conclude(&end, &written, sent.err()),
            signal = signals.next() => {
                let message = format!("signal {signal} came before {} was reported", end.text());
                Err(self.doubt(&message))
            }
        }
    }

    /// Keeps the lease and passes signals on until the command ends. Where another process may follow,
    /// a lost lease ends the command.
    async fn attend(
        &self,
        process: Process,
        supervised: bool,
        signals: &mut Signals,
    ) -> (io::Result<ExitStatus>, Written) {
        let (group, span) = (process.group(), self.hold.lease.to_duration());
        let beat = HeartbeatOnce {
            scope: self.begin.scope.clone(),
            key: self.begin.key.clone(),
            token: self.hold.token,
        };
        let lease = Lease::new(self.client.clone(), beat, span, self.since);
        let mut ending = Box::pin(process.end());
        let watch = async {
            tokio::select! {
                () = lease.keep() => {}
                () = lease.is_lost(), if supervised => end(group, span).await,
            }
        };
        tokio::pin!(watch);
        let mut watching = true;
        loop {
            tokio::select! {
                ended = &mut ending => return ended,
                signal = signals.next() => group.send(signal),
                () = &mut watch, if watching => watching = false,
            }
        }
    }

    async fn not_started(self, words: &[OsString], error: &io::Error) -> Result<Answer, Problem> {
        let program = words
            .first()
            .map_or("", |word| word.to_str().unwrap_or("?"));
        let message = format!("cannot start {program}: {error}");
        let ending = self.failure("not-started", message.clone(), false);
        ending
            .send(&self.client, self.hold.lease.to_duration())
            .await?;
        let problem = Problem::new(Outcome::Failed, code::LOCAL, message);
        let problem = problem.hint("nothing was run: repeat the command once it can be started");
        Err(problem.exit_with(NOT_STARTED))
    }

    fn judge(&self, status: io::Result<ExitStatus>, _: &Written) -> End {
        let status = match status {
            Ok(status) => status,
            Err(error) => return End::Unknown(format!("cannot tell how it ended: {error}")),
        };
        match (status.code(), status.signal()) {
            (Some(0), _) => End::Done,
            (Some(code), _) => match self.failed.exit_code(code) {
                Some(exit) => End::Failed { code, exit },
                None => End::Unknown(format!("the command exited with {code}")),
            },
            (None, signal) => {
                let signal = signal.unwrap_or_default();
                End::Unknown(format!("signal {signal} ended the command"))
            }
        }
    }

    fn ending(&self, end: &End, written: &Written) -> Ending {
        match end {
            End::Done => Ending::Done(FinishOnce {
                scope: self.begin.scope.clone(),
                key: self.begin.key.clone(),
                token: self.hold.token,
                result: Some(written.to_result()),
                external_id: None,
            }),
            End::Failed { code, .. } => self.failure(&format!("exit-{code}"), end.text(), false),
            End::Unknown(why) => self.failure("unknown-end", why.clone(), true),
        }
    }

    fn failure(&self, code: &str, message: String, in_doubt: bool) -> Ending {
        Ending::Failed(FailOnce {
            scope: self.begin.scope.clone(),
            key: self.begin.key.clone(),
            token: self.hold.token,
            code: Some(code.to_owned()),
            message,
            in_doubt,
        })
    }

    /// What this process says and exits with.
    fn conclude(
        &self,
        end: &End,
        written: &Written,
        refused: Option<ClientError>,
    ) -> Result<Answer, Problem> {
        if let Some(error) = refused {
            let message = format!(
                "{}, and the server did not record it: {}",
                end.text(),
                chain(&error)
            );
            return Err(self.doubt(&message));
        }
        let data = json!({
            "key": self.begin.key,
            "effect_key": self.hold.effect_key,
            "first": true,
            "result": written.to_result(),
        });
        match end {
            End::Done => Ok(Answer::done(data, "")),
            End::Failed { exit, .. } => {
                let problem = Problem::new(Outcome::Failed, code::ONCE_FAILED, end.text());
                let problem = problem.hint("a repeat runs the command again");
                Err(problem.exit_with(*exit))
            }
            End::Unknown(why) => Err(self.doubt(why)),
        }
    }

    fn doubt(&self, why: &str) -> Problem {
        let message = format!("whether this happened is in doubt: {why}");
        let problem = Problem::new(Outcome::InDoubt, code::ONCE_IN_DOUBT, message);
        let line = stored::line("settle", self.begin.scope.as_ref(), &self.begin.key);
        let hint = format!(
            "check the destination for {}; then type: {line} --happened (or --did-not-happen) --reason …",
            self.hold.effect_key
        );
        let show = stored::line("show", self.begin.scope.as_ref(), &self.begin.key);
        problem.hint(hint).next(show)
    }
}

/// How the command ended.
enum End {
    Done,
    Failed {
        /// The command's own exit code.
        code: i32,
        /// What this process exits with.
        exit: u8,
    },
    Unknown(String),
}

impl End {
    fn text(&self) -> String {
        match self {
            Self::Done => "the command exited with 0".to_owned(),
            Self::Failed { code, .. } => {
                format!("the command exited with {code}: nothing happened")
            }
            Self::Unknown(why) => why.clone(),
        }
    }
}

/// Ends a process group: first it is asked to, then it is made to.
async fn end(group: Group, lease: Duration) {
    group.send(TERM);
    tokio::time::sleep((lease / 6).min(KILL_AFTER_MAX)).await;
    group.send(KILL);
}
