//! An SSH server of the test's own, and an executor that may reach it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use semel_model::connection::{SshTarget, Target};
use semel_model::request::SshRequest;
use semel_model::{Connection, Doubt, EffectId, Fault, Outcome, RunId, SecretText, Span};
use semel_steps::{Destination, Egress, Reach, SendGate, SshExecutor};
use semel_testkit::{Sshd, until};
use serde_json::Value;

/// How long a request of these tests may take, where nothing else is said.
const TIMEOUT: Span = Span::from_const_secs(100);

/// A lease that a test can end: so many more looks find it held.
pub(crate) struct Gate(AtomicUsize);

impl Gate {
    pub(crate) fn close(&self) {
        self.close_after(0);
    }

    pub(crate) fn close_after(&self, looks: usize) {
        self.0.store(looks, Ordering::SeqCst);
    }
}

impl SendGate for Gate {
    fn is_open(&self) -> bool {
        let look = |left: usize| left.checked_sub(1);
        let looked = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, look);
        looked.is_ok()
    }
}

/// A machine with an SSH server.
pub(crate) struct World {
    pub(crate) server: Sshd,
    pub(crate) caller: SshExecutor,
    pub(crate) gate: Arc<Gate>,
}

impl World {
    pub(crate) async fn new() -> Result<Self> {
        Self::on(Sshd::start().await?)
    }

    pub(crate) fn on(server: Sshd) -> Result<Self> {
        let gate = Arc::new(Gate(AtomicUsize::new(usize::MAX)));
        let loopback = ["127.0.0.0/8", "::1/128"];
        let allowed = loopback.iter().flat_map(|net| net.parse()).collect();
        let reach = Reach {
            egress: Arc::new(Egress::new(allowed)),
            ..Reach::default()
        };
        let caller = SshExecutor::new(gate.clone(), &reach);
        Ok(Self {
            server,
            caller,
            gate,
        })
    }

    pub(crate) fn destination(&self) -> Result<Destination> {
        self.destination_at(self.server.address())
    }

    /// The server behind another address, such as a proxy's.
    pub(crate) fn destination_at(&self, address: SocketAddr) -> Result<Destination> {
        let target = SshTarget {
            host: address.ip().to_string(),
            port: address.port(),
            user: self.server.user().to_owned(),
            secret: "machine_key".to_owned(),
            host_key: self.server.host_key()?,
            env: vec!["GREETING".to_owned()],
        };
        let key = SecretText::new(self.server.private_key()?);
        let secrets = BTreeMap::from([("machine_key".to_owned(), key)]);
        let connection = Connection::to(Target::Ssh(target));
        Ok(Destination::new(
            "machine".to_owned(),
            1,
            1,
            connection,
            secrets,
        ))
    }

    pub(crate) async fn perform(&self, request: &SshRequest, key: EffectId) -> Result<Outcome> {
        Ok(self.caller.run(request, &self.destination()?, key).await)
    }

    pub(crate) async fn probe(&self, request: &SshRequest, key: EffectId) -> Result<Outcome> {
        Ok(self.caller.probe(request, &self.destination()?, key).await)
    }

    /// A command that adds a line to a file of the server's, then does something more.
    pub(crate) fn append(&self, then: &str) -> SshRequest {
        let file = self.server.file("effects");
        let script = format!("echo x >>{}; {then}", file.display());
        request(&["sh", "-c", &script])
    }

    /// A command of `append` that does something more once the test opens its gate. It outlives the server's
    /// folder by a moment, and a test that is killed by minutes.
    pub(crate) fn append_and_wait(&self, then: &str) -> SshRequest {
        let [gate, effects] = ["gate", "effects"].map(|name| self.server.file(name));
        let is_waiting = format!(
            "[ ! -e {} ] && [ -e {} ]",
            gate.display(),
            effects.display()
        );
        self.append(&format!(
            "n=0; while [ $n -lt 5000 ] && {is_waiting}; do n=$((n + 1)); sleep 0.1; done; {then}"
        ))
    }

    /// Lets every command of `append_and_wait` continue.
    pub(crate) fn open_gate(&self) -> Result<()> {
        Ok(std::fs::write(self.server.file("gate"), "")?)
    }

    /// The file that the marker of a key leaves when its command has ended.
    pub(crate) fn exit_of(&self, key: EffectId) -> PathBuf {
        self.server.state().join(format!("semel/{key}/exit"))
    }

    /// How often the command of `append` ran.
    pub(crate) fn effects(&self) -> usize {
        self.server.lines("effects")
    }

    /// Waits until the command of `append` ran so often.
    pub(crate) async fn until_effects(&self, count: usize) -> Result<()> {
        let look = async || -> Result<usize> { Ok(self.effects()) };
        until("effects on the machine", look, |effects| *effects >= count).await?;
        Ok(())
    }
}

/// Waits until a file is there.
pub(crate) async fn until_there(file: &Path) -> Result<()> {
    let look = async || -> Result<bool> { Ok(file.exists()) };
    until(&file.display().to_string(), look, |is_there| *is_there).await?;
    Ok(())
}

pub(crate) fn request(command: &[&str]) -> SshRequest {
    SshRequest {
        connection: "machine".to_owned(),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        stdin: None,
        env: Vec::new(),
        marker: false,
        detach: None,
        timeout: TIMEOUT,
    }
}

/// The same with a marker.
pub(crate) fn marked(mut request: SshRequest) -> SshRequest {
    request.marker = true;
    request
}

pub(crate) fn key(name: &str) -> EffectId {
    let run = RunId::from_uuid(uuid::Uuid::from_u128(7));
    EffectId::derive(run, name, "", 0)
}

#[track_caller]
pub(crate) fn done(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Done(receipt) => receipt.response,
        Outcome::Failed(_) | Outcome::InDoubt(_) => panic!("not done: {outcome:?}"),
    }
}

#[track_caller]
pub(crate) fn failed(outcome: Outcome) -> Fault {
    match outcome {
        Outcome::Failed(fault) => fault,
        Outcome::Done(_) | Outcome::InDoubt(_) => panic!("not failed: {outcome:?}"),
    }
}

#[track_caller]
pub(crate) fn in_doubt(outcome: Outcome) -> Doubt {
    match outcome {
        Outcome::InDoubt(doubt) => doubt,
        Outcome::Done(_) | Outcome::Failed(_) => panic!("not in doubt: {outcome:?}"),
    }
}
