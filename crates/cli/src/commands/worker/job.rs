//! One task: the worker starts the command, renews the lease, and reports the end.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use semel_api::types::{ClaimedTask, CompleteTask, FailTask, RenewTask};
use semel_api::{Client, ClientError, Code};
use semel_model::Span;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Child;
use tokio::time::Instant;

use super::report::{End, Report};
use super::{REST, passes, supervise};
use crate::answer::chain;
use crate::output;

/// The most bytes of a result.
const RESULT_BYTES_MAX: usize = 1_000_000;

/// How much of what a command says last goes into the reason of its failure.
const SAID_BYTES_MAX: usize = 1_000;

/// The exit code that says that another attempt may help: `EX_TEMPFAIL` of sysexits.h.
const TRY_AGAIN: i32 = 75;

/// What a worker reports of work that is done and whose result cannot be sent.
const ANSWER_REFUSED: &str = "answer-refused";

/// One task and all that is needed to carry it out.
pub(super) struct Job {
    pub(super) client: Client,
    pub(super) report: Arc<Report>,
    pub(super) command: Arc<[OsString]>,
    pub(super) task: ClaimedTask,
    /// How long the worker may be silent, where it says so.
    pub(super) lease: Option<Span>,
}

/// The result of a command.
enum Word {
    Done(Value),
    Failed(FailTask),
}

impl Job {
    pub(super) async fn carry_out(self) {
        self.report.claimed(&self.task);
        let begun = Instant::now();
        let word = tokio::select! {
            word = self.perform() => word,
            () = self.stay_in_touch() => unreachable!("a worker stays in touch until it is done"),
        };
        let end = self.tell(word).await;
        self.report.ended(&self.task, end, begun.elapsed());
    }

    async fn perform(&self) -> Word {
        let mut child = match self.start() {
            Ok(child) => child,
            Err(error) => {
                let program = self
                    .command
                    .first()
                    .map_or("", |it| it.to_str().unwrap_or("?"));
                let message = format!("cannot start {program}: {error}");
                output::note(&message);
                return self.failed("command-missing", message, true);
            }
        };
        let input = format!("{}\n", self.task.input);
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let mut stdin = stdin;
        if let Some(stdin) = &mut stdin {
            let _ = stdin.write_all(&supervise::frame(&input)).await;
            let _ = stdin.flush().await;
        }
        let (result, said, status) =
            tokio::join!(read_bounded(stdout), pass_through(stderr), child.wait());
        // The pipe stays open until here: its end is the command's.
        drop(stdin);
        match status {
            Ok(status) => self.judge(status, result, &said),
            Err(error) => self.unsure(format!("cannot tell how the command ended: {error}")),
        }
    }

    fn start(&self) -> std::io::Result<Child> {
        supervise::command(&self.command)?
            .env("SEMEL_TASK", self.task.task.to_string())
            .env("SEMEL_KEY", self.task.key.to_string())
            .env("SEMEL_ATTEMPT", self.task.attempt.to_string())
            .env("SEMEL_RUN", self.task.run.to_string())
            .env("SEMEL_STEP", &self.task.step)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Out of the terminal's reach: Ctrl-C asks the worker to stop, not the command.
            .process_group(0)
            .spawn()
    }

    /// What an exit code says.
    fn judge(&self, status: ExitStatus, result: Option<Vec<u8>>, said: &str) -> Word {
        match (status.code(), result) {
            (Some(code), _)
                if code == i32::from(supervise::NOT_STARTED)
                    && said.contains(supervise::NOT_STARTED_WORDS) =>
            {
                let message = format!("cannot start the command: {}", said.trim());
                self.failed("command-missing", message, true)
            }
            (Some(0), Some(result)) => Word::Done(read_result(&result)),
            (Some(0), None) => {
                let message = format!("its output has more than {RESULT_BYTES_MAX} bytes");
                self.unstorable(message)
            }
            (Some(code), _) => {
                let message = match said.trim() {
                    "" => format!("the command exited with {code}"),
                    said => format!("the command exited with {code}: {said}"),
                };
                self.failed(&format!("exit-{code}"), message, code == TRY_AGAIN)
            }
            (None, _) => {
                let signal = status.signal().unwrap_or_default();
                self.unsure(format!("signal {signal} ended the command"))
            }
        }
    }

    fn failed(&self, code: &str, message: String, retryable: bool) -> Word {
        Word::Failed(FailTask {
            token: self.task.token,
            code: Some(code.to_owned()),
            message,
            retryable,
            retry_after: None,
            in_doubt: false,
        })
    }

    fn unsure(&self, message: String) -> Word {
        Word::Failed(FailTask {
            token: self.task.token,
            code: None,
            message,
            retryable: false,
            retry_after: None,
            in_doubt: true,
        })
    }

    /// The command is done, and what it wrote cannot be its result.
    fn unstorable(&self, message: String) -> Word {
        Word::Failed(FailTask {
            token: self.task.token,
            code: Some(ANSWER_REFUSED.to_owned()),
            message,
            retryable: false,
            retry_after: None,
            in_doubt: true,
        })
    }

    /// Renews the lease for as long as the command runs. If another worker has the task by now, the
    /// command continues all the same: that it was done is worth knowing.
    async fn stay_in_touch(&self) {
        let every = self.task.lease.to_duration() / 3;
        let renew = RenewTask {
            token: self.task.token,
            lease: self.lease,
        };
        let mut told = false;
        loop {
            tokio::time::sleep(every).await;
            match self.client.renew_task(self.task.task, &renew).await {
                Ok(renewed) if renewed.cancel && !told => {
                    self.report.cancelled(&self.task);
                    told = true;
                }
                Ok(_) => {}
                Err(error) if passes(&error) => self.report.away(&error, every),
                Err(error) => {
                    self.report.lost(&self.task, &error);
                    return std::future::pending().await;
                }
            }
        }
    }

    /// Reports to the server, however long that takes: only this worker knows.
    async fn tell(&self, mut word: Word) -> End {
        let mut rest = REST.0;
        loop {
            let (told, end) = match &word {
                Word::Done(result) => {
                    let complete = CompleteTask {
                        token: self.task.token,
                        result: result.clone(),
                    };
                    let told = self.client.complete_task(self.task.task, &complete).await;
                    (told, End::Done)
                }
                Word::Failed(fail) => {
                    let told = self.client.fail_task(self.task.task, fail).await;
                    let end = match fail.in_doubt {
                        true => End::InDoubt(fail.message.clone()),
                        false => End::Failed(fail.message.clone()),
                    };
                    (told, end)
                }
            };
            match told {
                Ok(_) => return end,
                Err(error) if passes(&error) => self.report.away(&error, rest),
                Err(ClientError::Problem(problem)) => match (&word, problem.code()) {
                    // The server has recorded it.
                    (Word::Done(_), Some(Code::BodyNotJson | Code::BodyInvalid)) => {
                        return End::InDoubt(problem.detail);
                    }
                    // The server did not read it: only this worker can say what it was.
                    (Word::Done(_), Some(Code::BodyTooLarge)) => {
                        word = self.unstorable(problem.detail);
                        continue;
                    }
                    (Word::Done(_) | Word::Failed(_), _) => return End::Left(problem.detail),
                },
                Err(error) => return End::Left(chain(&error)),
            }
            tokio::time::sleep(rest).await;
            rest = (rest * 2).min(REST.1);
        }
    }
}

/// JSON, or else the text itself; nothing if nothing was written.
fn read_result(bytes: &[u8]) -> Value {
    let text = String::from_utf8_lossy(bytes);
    match text.trim() {
        "" => Value::Null,
        text => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())),
    }
}

/// Reads to the end; nothing if that is too much.
async fn read_bounded(from: Option<impl AsyncRead + Unpin>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut from = from?;
    let mut limited = (&mut from).take(RESULT_BYTES_MAX as u64 + 1);
    let _ = limited.read_to_end(&mut bytes).await;
    if bytes.len() <= RESULT_BYTES_MAX {
        return Some(bytes);
    }
    // The command must not stand still for want of a reader.
    let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    None
}

/// Shows what the command says, and keeps the last of it.
async fn pass_through(from: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut from) = from else {
        return String::new();
    };
    let (mut piece, mut kept) = ([0; 4096], Vec::new());
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        output::pass(&piece[..count]);
        kept.extend_from_slice(&piece[..count]);
        let over = kept.len().saturating_sub(SAID_BYTES_MAX);
        kept.drain(..over);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_command_writes_is_json_or_text() {
        assert_eq!(read_result(b" {\"a\": 1}\n"), json!({"a": 1}));
        assert_eq!(read_result(b"all good\n"), json!("all good"));
        assert_eq!(read_result(b" \n"), Value::Null);
    }
}
