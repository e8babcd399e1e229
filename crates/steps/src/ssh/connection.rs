//! One SSH connection: the right host, the right user, one command.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use russh::client::{self, AuthResult, Handle, Msg};
use russh::keys::{
    Algorithm, EcdsaCurve, HashAlg, PrivateKeyWithHashAlg, PublicKeyOrCertificate,
    decode_secret_key,
};
use russh::{Channel, ChannelMsg, ChannelReadHalf, Preferred};
use semel_model::connection::SshTarget;
use semel_model::{Fault, SecretText};
use tokio::time::{Instant, timeout_at};

use super::OUTPUT_BYTES_MAX;

/// The number by which SSH tells errors from output.
const STDERR: u32 = 1;

/// The most bytes of output that are taken in: two outputs in one, and what the marker says.
const STDOUT_BYTES_MAX: usize = 2 * OUTPUT_BYTES_MAX + 64 * 1024;

/// A connection that is authenticated.
pub(super) struct SshConnection {
    handle: Handle<Pinned>,
}

/// How a command ended, as far as we heard.
pub(super) enum End {
    /// The request to run it never left, or was refused.
    NotSent(Fault),
    /// The request left and its end was not heard of.
    Lost(String),
    /// A signal ended it.
    Killed(String),
    /// It ended by itself.
    Exited(Heard),
}

/// What was heard of a command.
#[derive(Default)]
pub(super) struct Heard {
    pub(super) exit: u32,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) stderr_cut: bool,
}

/// Accepts the host whose key is pinned, and no other. Everything that a server may ask of a client
/// (forwarded ports, agents, displays) is refused by default.
struct Pinned {
    host_key: String,
    another_key: Arc<AtomicBool>,
}

impl client::Handler for Pinned {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        shown: &PublicKeyOrCertificate,
    ) -> Result<bool, russh::Error> {
        let is_pinned = match shown {
            PublicKeyOrCertificate::PublicKey { key, .. } => {
                key.fingerprint(HashAlg::Sha256).to_string() == self.host_key
                    || semel_model::SeededBug::HostKeyNotCompared.is_seeded()
            }
            PublicKeyOrCertificate::Certificate(_) => false,
        };
        if !is_pinned {
            self.another_key.store(true, Ordering::SeqCst);
        }
        Ok(is_pinned)
    }
}

impl SshConnection {
    /// Connects to a checked address, checks the host's key, and authenticates.
    pub(super) async fn connect(
        target: &SshTarget,
        secret: &SecretText,
        at: &[SocketAddr],
    ) -> Result<Self, Fault> {
        let key = decode_secret_key(secret.reveal(), None).map_err(|error| {
            let message = format!("the secret {} is not a private key: {error}", target.secret);
            Fault::permanent("key-unreadable", message)
        })?;
        if key.algorithm().is_rsa() {
            let message = format!(
                "the secret {} is an RSA key: Semel authenticates with ed25519 or ECDSA",
                target.secret
            );
            return Err(Fault::permanent("key-unfit", message));
        }
        let mut handle = greet(target, at).await?;
        let key = PrivateKeyWithHashAlg::new(Arc::new(key), None);
        match handle.authenticate_publickey(&target.user, key).await {
            Ok(AuthResult::Success) => Ok(Self { handle }),
            Ok(AuthResult::Failure { .. }) => Err(Fault::permanent(
                "sign-in-refused",
                format!(
                    "{} does not authenticate {} with this key",
                    target.host, target.user
                ),
            )),
            Err(error) => Err(unreachable(target, &error)),
        }
    }

    /// Runs a command and hears it out. Once the request has left, silence is not a failure.
    ///
    /// `may_send` is asked right before it leaves: a server may take its time to open a channel.
    pub(super) async fn run(
        self,
        command: &str,
        input: String,
        deadline: Instant,
        may_send: impl FnOnce() -> Result<(), Fault>,
    ) -> End {
        let opened = timeout_at(deadline, self.handle.channel_open_session()).await;
        let channel = match opened {
            Ok(Ok(channel)) => channel,
            Ok(Err(error)) => return not_sent(&error.to_string()),
            Err(_) => return not_sent("no channel was opened in time"),
        };
        if let Err(fault) = may_send() {
            return End::NotSent(fault);
        }
        if let Err(error) = channel.exec(true, command).await {
            return not_sent(&error.to_string());
        }
        match timeout_at(deadline, converse(channel, input)).await {
            Ok(end) => end,
            Err(_) => End::Lost("the command was sent and did not end in time".to_owned()),
        }
    }
}

fn not_sent(why: &str) -> End {
    End::NotSent(Fault::passing("no-connection", why))
}

/// Connects and exchanges keys.
///
/// A server has keys of several kinds and shows the one that we prefer. The pinned one may be of
/// another kind, so those are asked for in turn before the key counts as changed.
async fn greet(target: &SshTarget, at: &[SocketAddr]) -> Result<Handle<Pinned>, Fault> {
    for kinds in key_kinds() {
        let another_key = Arc::new(AtomicBool::new(false));
        let pinned = Pinned {
            host_key: target.host_key.clone(),
            another_key: another_key.clone(),
        };
        let config = Arc::new(client::Config {
            preferred: Preferred {
                key: Cow::Owned(kinds),
                ..Preferred::default()
            },
            nodelay: true,
            ..client::Config::default()
        });
        match client::connect(config, at, pinned).await {
            Ok(handle) => return Ok(handle),
            Err(_) if another_key.load(Ordering::SeqCst) => {}
            Err(russh::Error::NoCommonAlgo { .. }) => {}
            Err(error) => return Err(unreachable(target, &error)),
        }
    }
    let message = format!(
        "{} shows another ed25519 or ECDSA host key than {}: nothing was sent. If that is known to be right, change `host_key` of the connection",
        target.host, target.host_key
    );
    Err(Fault::permanent("host-key-changed", message))
}

/// RSA is not among them: its library leaks timing (RUSTSEC-2023-0071), and servers that have RSA
/// keys have others besides.
fn key_kinds() -> [Vec<Algorithm>; 2] {
    let ecdsa = |curve| Algorithm::Ecdsa { curve };
    [
        vec![Algorithm::Ed25519],
        vec![
            ecdsa(EcdsaCurve::NistP256),
            ecdsa(EcdsaCurve::NistP384),
            ecdsa(EcdsaCurve::NistP521),
        ],
    ]
}

fn unreachable(target: &SshTarget, error: &russh::Error) -> Fault {
    Fault::passing("no-connection", format!("{}: {error}", target.host))
}

/// Sends the input while the output is read, so that neither waits for the other.
async fn converse(channel: Channel<Msg>, input: String) -> End {
    let (mut hearing, speaking) = channel.split();
    let speak = async {
        // A command that does not read its input is not for that reason a failure.
        if speaking.data(input.as_bytes()).await.is_ok() {
            speaking.eof().await.ok();
        }
        std::future::pending::<End>().await
    };
    tokio::select! {
        end = hear(&mut hearing) => end,
        end = speak => end,
    }
}

/// Hears a command out, until its channel is closed.
async fn hear(hearing: &mut ChannelReadHalf) -> End {
    let mut heard = Heard::default();
    let mut end = None;
    while let Some(message) = hearing.wait().await {
        if let ChannelMsg::Failure = message {
            let message = "the server refuses to run commands";
            return End::NotSent(Fault::permanent("command-refused", message));
        } else if let ChannelMsg::ExitStatus { exit_status } = message {
            end = Some(Ok(exit_status));
        } else if let ChannelMsg::ExitSignal { signal_name, .. } = message {
            end = Some(Err(format!("{signal_name:?}")));
        } else if let ChannelMsg::Data { data } = message {
            keep(&mut heard.stdout, &data, STDOUT_BYTES_MAX);
        } else if let ChannelMsg::ExtendedData { data, ext: STDERR } = message {
            heard.stderr_cut |= keep(&mut heard.stderr, &data, OUTPUT_BYTES_MAX);
        }
    }
    match end {
        Some(Ok(exit)) => End::Exited(Heard { exit, ..heard }),
        Some(Err(signal)) => End::Killed(signal),
        None => End::Lost("the command was sent, and its exit status did not arrive".to_owned()),
    }
}

/// Keeps what there is room for; tells whether some was left out.
fn keep(kept: &mut Vec<u8>, data: &[u8], most: usize) -> bool {
    let room = most.saturating_sub(kept.len());
    kept.extend_from_slice(&data[..data.len().min(room)]);
    data.len() > room
}
