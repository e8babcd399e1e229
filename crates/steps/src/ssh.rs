//! SSH: one command on another machine.
//!
//! Before the request to run it has left, nothing can have happened. After that only the command's
//! own exit status tells: zero is done, anything else is its own word that it failed. A command
//! that was killed, or whose end was not heard of, is in doubt. With a marker, a script on the other
//! machine (`ssh/marker.sh`) sees to it that a command runs once and can be asked about.

use std::sync::Arc;
use std::time::Duration;

use semel_model::connection::{SshTarget, Target};
use semel_model::request::SshRequest;
use semel_model::{Doubt, EffectId, Fault, FaultKind, Outcome, Receipt};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use crate::destination::Destination;
use crate::egress::Egress;
use crate::executor::{Attempt, Executor, Route, Setup, not_offered};
use crate::failpoint::failpoint;
use crate::gate::SendGate;
use crate::reach::Reach;

mod command;
mod connection;
mod marker;

use self::connection::{End, SshConnection};
use self::marker::{Said, Want};

/// The most bytes of each of a command's two outputs that are kept.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// How long a connection may take to stand and be authenticated.
const CONNECT_PATIENCE: Duration = Duration::from_secs(15);

/// How long a question to a marker may take.
const PROBE_PATIENCE: Duration = Duration::from_secs(30);

/// The most bytes of a failed command's words that are shown.
const EXCERPT_CHARS: usize = 300;

/// Runs commands on other machines.
#[derive(Clone)]
pub struct SshExecutor {
    gate: Arc<dyn SendGate>,
    egress: Arc<Egress>,
}

impl Executor for SshExecutor {
    const KIND: &'static str = "ssh";
    type Request = SshRequest;

    fn set_up(setup: &Setup) -> Self {
        Self::new(setup.gate.clone(), &setup.reach)
    }

    async fn perform(&self, attempt: Attempt<'_, SshRequest>) -> Outcome {
        match attempt.route.destination(&attempt.request.connection) {
            Ok(to) => self.run(attempt.request, to, attempt.key).await,
            Err(fault) => Outcome::Failed(fault),
        }
    }

    /// What a command changes is not known, so that none is a read.
    async fn read(&self, _: Route<'_>, _: &SshRequest) -> Outcome {
        not_offered(Self::KIND)
    }

    async fn find_marker(&self, route: Route<'_>, request: &SshRequest, key: EffectId) -> Outcome {
        match route.destination(&request.connection) {
            Ok(to) => self.probe(request, to, key).await,
            Err(fault) => Outcome::Failed(fault),
        }
    }
}

impl SshExecutor {
    /// A caller that sends only while the gate is open, to addresses within reach.
    #[must_use]
    pub fn new(gate: Arc<dyn SendGate>, reach: &Reach) -> Self {
        Self {
            gate,
            egress: reach.egress.clone(),
        }
    }

    /// Runs the command once, or starts it if it is detached.
    pub async fn run(&self, request: &SshRequest, to: &Destination, key: EffectId) -> Outcome {
        let deadline = Instant::now() + request.timeout.to_duration();
        let want = match (&request.detach, request.marker) {
            (Some(_), _) => Some(Want::Start),
            (None, true) => Some(Want::Run),
            (None, false) => None,
        };
        let prepared = ssh(to).and_then(|target| {
            let text = match want {
                Some(want) => marker::command(request, target, key, want)?,
                None => command::plain(request, target)?,
            };
            Ok((target, text))
        });
        let (target, text) = match prepared {
            Ok(prepared) => prepared,
            Err(fault) => return Outcome::Failed(fault),
        };
        let wire = match self.connect(to, target, deadline).await {
            Ok(wire) => wire,
            Err(fault) => return Outcome::Failed(fault),
        };
        failpoint("ssh.connected", &key.to_string()).await;
        let input = match want {
            Some(_) => marker::input(request),
            None => request.stdin.clone().unwrap_or_default(),
        };
        let end = wire.run(&text, input, deadline, || self.ask_gate()).await;
        failpoint("ssh.ended", &key.to_string()).await;
        match want {
            Some(_) => read_marked(end),
            None => read_plain(end),
        }
    }

    /// Asks the marker what happened to a command. Changes nothing.
    ///
    /// Done with its result; failed as `marker-absent` where it never began, as `still-running`
    /// while its process lives; in doubt where it began and its process is gone without a word.
    pub async fn probe(&self, request: &SshRequest, to: &Destination, key: EffectId) -> Outcome {
        let deadline = Instant::now() + PROBE_PATIENCE;
        let asking = async {
            let target = ssh(to)?;
            let text = marker::command(request, target, key, Want::Probe)?;
            let wire = self.connect(to, target, deadline).await?;
            let may_send = || self.ask_gate();
            Ok(wire.run(&text, String::new(), deadline, may_send).await)
        };
        match asking.await {
            Ok(end) => read_probe(end),
            Err(fault) => Outcome::Failed(fault),
        }
    }

    /// Authenticates and tells who answered, in one line.
    ///
    /// # Errors
    ///
    /// If the machine cannot be reached, shows another host key, or refuses the user.
    pub async fn test(&self, to: &Destination) -> Result<String, Fault> {
        let target = ssh(to)?;
        self.connect(to, target, Instant::now() + CONNECT_PATIENCE)
            .await?;
        let SshTarget {
            user,
            host,
            host_key,
            ..
        } = target;
        Ok(format!(
            "authenticated as {user} at {host}, whose key is {host_key}"
        ))
    }

    async fn connect(
        &self,
        to: &Destination,
        target: &SshTarget,
        deadline: Instant,
    ) -> Result<SshConnection, Fault> {
        self.ask_gate()?;
        let patience = deadline.min(Instant::now() + CONNECT_PATIENCE);
        let connecting = async {
            let secret = to.secret(&target.secret)?;
            let addresses = self
                .egress
                .resolve(to.namespace_id, &target.host, target.port)
                .await?;
            SshConnection::connect(target, secret, &addresses).await
        };
        let connected = timeout_at(patience, connecting).await;
        connected.unwrap_or_else(|_| {
            let message = format!("authentication at {} timed out", target.host);
            Err(Fault::passing("timeout", message))
        })
    }

    fn ask_gate(&self) -> Result<(), Fault> {
        if self.gate.is_open() {
            Ok(())
        } else {
            let message = "the lease ran out before the command was sent";
            Err(Fault::passing("lease-lost", message).of(FaultKind::Ours))
        }
    }
}

fn ssh(to: &Destination) -> Result<&SshTarget, Fault> {
    match &to.connection.to {
        Target::Ssh(target) => Ok(target),
        Target::Http(_)
        | Target::Postgres(_)
        | Target::Smtp(_)
        | Target::Slack(_)
        | Target::Webhook(_)
        | Target::Llm(_) => Err(to.unfit("ssh")),
    }
}

fn read_plain(end: End) -> Outcome {
    match end {
        End::NotSent(fault) => Outcome::Failed(fault),
        End::Lost(seen) => Outcome::InDoubt(Doubt::new("no-answer", seen)),
        End::Killed(signal) => killed(&format!("SIG{signal}")),
        End::Exited(mut heard) => {
            let stdout_cut = heard.stdout.len() > OUTPUT_BYTES_MAX;
            heard.stdout.truncate(OUTPUT_BYTES_MAX);
            let finished = Finished {
                exit: heard.exit,
                truncated: stdout_cut || heard.stderr_cut,
                stdout: heard.stdout,
                stderr: heard.stderr,
                repeated: false,
            };
            finished.outcome()
        }
    }
}

fn read_marked(end: End) -> Outcome {
    match end {
        End::NotSent(fault) => Outcome::Failed(fault),
        End::Lost(seen) => Outcome::InDoubt(Doubt::new("no-answer", seen)),
        End::Killed(signal) => killed(&format!("SIG{signal}")),
        End::Exited(heard) => match marker::read(&heard) {
            Said::Done(finished) => finished.outcome(),
            Said::Started(pid) => {
                Outcome::Done(Receipt::new(json!({ "started": true, "pid": pid }), None))
            }
            Said::Broken(why) => Outcome::Failed(Fault::passing("marker-unwritable", why)),
            Said::Running => Outcome::InDoubt(Doubt::new(
                "still-running",
                "the command was started before and is still running",
            )),
            Said::Lost | Said::Absent => lost(),
            Said::Nothing => Outcome::InDoubt(Doubt::new(
                "marker-silent",
                format!(
                    "the marker's script printed nothing; exit status {}: {}",
                    heard.exit,
                    excerpt(&heard.stderr)
                ),
            )),
        },
    }
}

fn read_probe(end: End) -> Outcome {
    let unheard = |seen: String| Outcome::Failed(Fault::passing("probe-unanswered", seen));
    match end {
        End::NotSent(fault) => Outcome::Failed(fault),
        End::Lost(seen) => unheard(seen),
        End::Killed(signal) => unheard(format!("the probe was ended by SIG{signal}")),
        End::Exited(heard) => match marker::read(&heard) {
            Said::Done(finished) => finished.outcome(),
            Said::Absent => {
                let message = "the command was never started there";
                let fault = Fault::permanent("marker-absent", message);
                Outcome::Failed(fault.of(FaultKind::MarkerAbsent))
            }
            Said::Running => {
                let message = "the command was started and is still running";
                let fault = Fault::passing("still-running", message);
                Outcome::Failed(fault.of(FaultKind::StillRunning))
            }
            Said::Lost => lost(),
            Said::Broken(why) => unheard(why),
            Said::Started(_) | Said::Nothing => unheard(format!(
                "the marker's script printed nothing: {}",
                excerpt(&heard.stderr)
            )),
        },
    }
}

fn lost() -> Outcome {
    Outcome::InDoubt(Doubt::new(
        "process-gone",
        "the command was started, and its process is gone without an exit status",
    ))
}

fn killed(by: &str) -> Outcome {
    let message = format!("the command was ended by {by}: how far it came is unknown");
    Outcome::InDoubt(Doubt::new("killed", message))
}

/// A command that ran to its end.
struct Finished {
    exit: u32,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    truncated: bool,
    repeated: bool,
}

impl Finished {
    fn outcome(self) -> Outcome {
        match self.exit {
            0 => Outcome::Done(Receipt::new(
                json!({
                    "exit": 0,
                    "stdout": String::from_utf8_lossy(&self.stdout),
                    "stderr": String::from_utf8_lossy(&self.stderr),
                    "truncated": self.truncated,
                    "repeated": self.repeated,
                }),
                None,
            )),
            // How shells tell of a command that a signal ended.
            129..=159 => killed(&format!("signal {}", self.exit - 128)),
            exit => {
                let words = match excerpt(&self.stderr) {
                    words if words.is_empty() => excerpt(&self.stdout),
                    words => words,
                };
                let message = format!("the command ended with exit status {exit}: {words}");
                Outcome::Failed(Fault::permanent(format!("exit-{exit}"), message))
            }
        }
    }
}

fn excerpt(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim().chars().take(EXCERPT_CHARS).collect()
}
