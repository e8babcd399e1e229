//! `semel worker`: runs a command for each task of a queue.

mod job;
mod report;
pub(crate) mod supervise;

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use semel_api::types::{ClaimTasks, ClaimedTask};
use semel_api::{Client, ClientError};
use semel_model::{DeliveryId, Label, Span};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::hardening::forbid_core_dumps;
use crate::output::Reader;
use crate::remote;
use crate::service::Signals;
use report::{Report, Teller};

/// How long one request waits for work: a worker that is asked to stop waits for its end, because
/// work that the server assigned to it must not get lost.
const CLAIM_WAIT: Span = Span::from_const_secs(2);

/// The first and the longest pause between requests to a server that does not answer.
const REST: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

/// Run a command for each task of a queue.
///
/// The command gets the task's input as JSON on stdin, and SEMEL_TASK, SEMEL_KEY, SEMEL_ATTEMPT,
/// SEMEL_RUN and SEMEL_STEP in its environment. Its stdout is the step's result: JSON, or else
/// plain text. Exit code 0 means done, 75 that it did not happen and another attempt may help, any
/// other that it did not happen. A command that is ended by a signal leaves a doubt.
///
/// On SIGTERM or Ctrl-C the worker finishes running commands and starts no new ones; a second
/// signal ends it at once. A worker that ends, however it ends, ends its commands and all that they
/// started.
///
/// With --json the totals are written at the end, as one object. With --events each event is a JSON
/// line on stderr: {"event": "started" | "claimed" | "done" | "failed" | "in_doubt" | "left" |
/// "lost" | "cancel" | "away" | "stopping", …}.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel worker --queue images -- ./resize.sh
  semel worker --queue images --parallel 4 --lease 30s -- python3 resize.py")]
pub(crate) struct Arguments {
    /// The queue, as the flow's `task` step names it.
    #[arg(long, visible_alias = "type", value_name = "QUEUE")]
    queue: Label,
    /// How many commands may run together.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    parallel: u16,
    /// How long this worker may be silent before another one gets its tasks; by default as the step
    /// says.
    #[arg(long, value_name = "SPAN")]
    lease: Option<Span>,
    /// This worker's name, for people.
    #[arg(long)]
    name: Option<String>,
    /// Exit after there was nothing to do for this long.
    #[arg(long, value_name = "SPAN")]
    until_idle: Option<Span>,
    /// Write events as JSON lines to stderr.
    #[arg(long)]
    events: bool,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    forbid_core_dumps();
    must_start(&arguments.command)?;
    let client = remote::client(ctx)?;
    let mut signals = Signals::catch()?;
    let teller = match (arguments.events, ctx.reader) {
        (true, _) => Teller::Lines,
        (false, Reader::Person) => Teller::Person,
        (false, Reader::Program) => Teller::Nobody,
    };
    let worker = Worker {
        client,
        report: Arc::new(Report::new(teller)),
        room: Arc::new(Semaphore::new(usize::from(arguments.parallel))),
        jobs: TaskTracker::new(),
        stop: CancellationToken::new(),
        command: Arc::from(arguments.command.as_slice()),
    };
    worker
        .report
        .begin(arguments.queue.as_str(), arguments.parallel);
    let working = async {
        let ended = worker.work(arguments).await;
        worker.jobs.close();
        worker.jobs.wait().await;
        ended
    };
    tokio::pin!(working);
    tokio::select! {
        ended = &mut working => return ended.map(|()| worker.report.end()),
        () = signals.come() => worker.stop.cancel(),
    }
    worker.report.stopping(worker.jobs.len());
    tokio::select! {
        ended = &mut working => ended.map(|()| worker.report.end()),
        () = signals.come() => Err(Problem::local("stopped at once: tasks are left to their leases")),
    }
}

/// Refuses a command that is not there before any task is taken for it.
fn must_start(command: &[OsString]) -> Result<(), Problem> {
    let Some(program) = command.first().map(Path::new) else {
        return Err(Problem::usage("no command is given"));
    };
    let is_program = |path: &Path| {
        let there = std::fs::metadata(path);
        there.is_ok_and(|there| there.is_file() && there.permissions().mode() & 0o111 != 0)
    };
    let found = match program.components().count() {
        // A bare name is looked for where the system would.
        1 if !program.starts_with(".") => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|folder| is_program(&folder.join(program)))
        }
        _ => is_program(program),
    };
    if found {
        return Ok(());
    }
    let message = format!("program `{}` not found", program.display());
    Err(Problem::usage(message)
        .hint("name one that is in PATH, or its path; it has to be executable"))
}

struct Worker {
    client: Client,
    report: Arc<Report>,
    room: Arc<Semaphore>,
    jobs: TaskTracker,
    stop: CancellationToken,
    command: Arc<[OsString]>,
}

impl Worker {
    /// Takes work until the worker is asked to stop.
    async fn work(&self, arguments: &Arguments) -> Result<(), Problem> {
        let mut idle_since = Instant::now();
        let mut rest = REST.0;
        let mut name = None;
        while !self.stop.is_cancelled() {
            let Some(room) = self.room().await else {
                return Ok(());
            };
            // A request whose answer was lost is asked again under its own name.
            let key = name.get_or_insert_with(|| DeliveryId::generate().to_string());
            let claim = ClaimTasks {
                queue: arguments.queue.to_string(),
                max: Some(room),
                wait: Some(CLAIM_WAIT),
                worker: Some(worker_name(arguments)),
                lease: arguments.lease,
            };
            match self.client.claim_tasks(&claim, key).await {
                Ok(claimed) => {
                    (name, rest) = (None, REST.0);
                    if !claimed.tasks.is_empty() || !self.jobs.is_empty() {
                        idle_since = Instant::now();
                    }
                    for task in claimed.tasks {
                        self.begin(task, arguments.lease).await;
                    }
                }
                Err(error) if passes(&error) => {
                    self.report.away(&error, rest);
                    tokio::select! {
                        () = tokio::time::sleep(rest) => {}
                        () = self.stop.cancelled() => {}
                    }
                    rest = (rest * 2).min(REST.1);
                }
                Err(error) => return Err(error.into()),
            }
            let patience = arguments.until_idle.map(Span::to_duration);
            if patience.is_some_and(|patience| idle_since.elapsed() >= patience) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Waits until a command may be started, and says how many may.
    async fn room(&self) -> Option<u16> {
        let one = tokio::select! {
            one = self.room.acquire() => one.ok()?,
            () = self.stop.cancelled() => return None,
        };
        drop(one);
        u16::try_from(self.room.available_permits()).ok()
    }

    async fn begin(&self, task: ClaimedTask, lease: Option<Span>) {
        let Ok(permit) = self.room.clone().acquire_owned().await else {
            return;
        };
        let job = job::Job {
            client: self.client.clone(),
            report: self.report.clone(),
            command: self.command.clone(),
            task,
            lease,
        };
        self.jobs.spawn(async move {
            job.carry_out().await;
            drop(permit);
        });
    }
}

/// Whether waiting may help.
pub(crate) fn passes(error: &ClientError) -> bool {
    match error.status() {
        None => matches!(error, ClientError::Unreachable(_)),
        Some(status) => status == 429 || status >= 500,
    }
}

fn worker_name(arguments: &Arguments) -> String {
    match &arguments.name {
        Some(name) => name.clone(),
        None => format!("semel worker, pid {}", std::process::id()),
    }
}
