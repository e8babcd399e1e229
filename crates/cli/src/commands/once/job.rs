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
use super::process::{Process, Reach};
use super::report::Ending;
use super::signals::{Signals, TSTP, stop_here};
use super::stored::{self, Written};
use crate::answer::{Answer, Problem, chain};
use crate::code;
use crate::outcome::Outcome;
use crate::output::{self, Reader};

/// The exit code of a command that could not be started, as shells have it.
const NOT_STARTED: u8 = 127;

/// How long a hold is given up after a signal, at most.
const ABANDON_PATIENCE: Duration = Duration::from_secs(5);

/// Said to people when a command may have been ended for that.
const NOT_RENEWED: &str = "semel: the lease was not renewed for two thirds of its time";

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
            ABANDON_PATIENCE,
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
        let lease = self.lease();
        if !lease.is_fresh().await {
            return self.too_late().await;
        }
        let (key, reader) = (self.hold.effect_key, self.reader);
        let started = match self.begin.on_doubt {
            Some(OnDoubt::Retry) => Process::start_supervised(words, key, reader, lease.terms()),
            Some(OnDoubt::Ask | OnDoubt::Fail) | None => Process::start(words, key, reader),
        };
        let (process, reach) = match started {
            Ok(started) => started,
            Err(error) => return self.not_started(words, &error).await,
        };
        let (status, written) = self.attend(process, &reach, &lease, &mut signals).await;
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

    fn lease(&self) -> Lease {
        let beat = HeartbeatOnce {
            scope: self.begin.scope.clone(),
            key: self.begin.key.clone(),
            token: self.hold.token,
        };
        let span = self.hold.lease.to_duration();
        Lease::new(self.client.clone(), beat, span, self.since)
    }

    /// Keeps the lease and passes signals on until the command ends. Where another process may follow,
    /// a lost lease ends the command.
    async fn attend(
        &self,
        process: Process,
        reach: &Reach,
        lease: &Lease,
        signals: &mut Signals,
    ) -> (io::Result<ExitStatus>, Written) {
        let span = self.hold.lease.to_duration();
        let mut ending = Box::pin(process.end(reach));
        let watch = async {
            tokio::select! {
                () = lease.keep(|sent| reach.answered(sent)) => {}
                () = lease.is_lost(), if reach.is_supervised() => reach.end(span).await,
            }
        };
        tokio::pin!(watch);
        let mut watching = true;
        loop {
            tokio::select! {
                ended = &mut ending => {
                    if reach.is_supervised() && lease.is_silent() {
                        output::note(NOT_RENEWED);
                    }
                    return ended;
                }
                signal = signals.any() => {
                    reach.pass_on(signal);
                    if signal == TSTP {
                        stop_here();
                    }
                }
                () = &mut watch, if watching => watching = false,
            }
        }
    }

    /// Ends a hold whose lease was over before the command could be started.
    async fn too_late(&self) -> Result<Answer, Problem> {
        let message = "nothing was run: the lease of the key was over before that";
        let ending = self.failure("not-started", message.to_owned(), false);
        let lease = self.hold.lease.to_duration();
        match ending.send(&self.client, lease).await {
            Ok(()) => Err(Problem::local(message).hint("repeat the command")),
            Err(error) => {
                let why = format!(
                    "{message}, and the server did not record it: {}",
                    chain(&error)
                );
                Err(self.doubt(&why))
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
        let line = stored::line_to_settle(self.begin.scope.as_ref(), &self.begin.key);
        let hint = format!(
            "check the destination for {}; then type: {line}",
            self.hold.effect_key
        );
        let show = stored::line_to_show(self.begin.scope.as_ref(), &self.begin.key);
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
