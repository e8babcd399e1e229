//! Hooks: from a request to a verified delivery, and on to its claim.

use std::sync::Arc;

use semel_flow::provider::Challenge;
use semel_flow::release::{Webhook, WebhookAuth};
use semel_model::{KeySpace, SecretText, Span, TriggerKind};
use semel_store::refused_deliveries;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::challenge;
use super::delivery::{fingerprint, read_form, read_payload, tell, to_object};
use super::inbound::{Request, describe};
use super::input::{note_refusal, note_unread};
use super::replay::Seen;
use super::signature::{self, SignedRequest, VerifyError};
use super::{Inbound, Intake, IntakeError, refuse, replay};
use crate::catalogue::Release;
use crate::runtime::Runtime;

/// Headers that are never kept and that no expression can read.
const UNSEEN_HEADERS: [&str; 4] = [
    "authorization",
    "cookie",
    "proxy-authorization",
    "set-cookie",
];

/// A request to a hook.
#[derive(Clone, Debug)]
pub struct WebhookRequest {
    /// The namespace in its address.
    pub namespace: String,
    /// The last part of its address.
    pub path: String,
    /// Path and query as they came, which some sources sign.
    pub target: String,
    /// Its body, as it came.
    pub body: Vec<u8>,
    /// Its headers, with lower-case names.
    pub headers: Vec<(String, String)>,
    /// Its query parameters.
    pub query: Vec<(String, String)>,
}

/// A request to a hook whose signature or token is verified. Nothing else can be delivered.
#[derive(Debug)]
pub struct Authentic {
    release: Arc<Release>,
    arrival: WebhookRequest,
    is_form: bool,
    /// SHA-256 of the signed text, where that does not settle the payload.
    text_digest: Option<[u8; 32]>,
}

impl Authentic {
    /// What its source wants to be sent back before it delivers, where it asks for that. Such a
    /// request is no delivery: it has no key and starts nothing.
    #[must_use]
    pub fn challenge(&self) -> Option<String> {
        let webhook = webhook_of(&self.release).ok()?;
        challenge::read(webhook.challenge?, &self.arrival.body)
    }

    /// How long its sender is kept waiting for the result of the run; nothing if it is not.
    #[must_use]
    pub fn respond_within(&self) -> Option<Span> {
        webhook_of(&self.release).ok()?.respond_within
    }

    /// A request of a rehearsal, which no source has signed. Nothing where the process serves.
    pub(crate) fn on_stage(
        runtime: &Runtime,
        release: Arc<Release>,
        arrival: WebhookRequest,
    ) -> Option<Self> {
        runtime.rehearsal.as_ref().map(|_| Self {
            release,
            arrival,
            is_form: false,
            text_digest: None,
        })
    }
}

impl Runtime {
    /// Whether there is such a hook, so that nothing is read for one that there is not.
    ///
    /// # Errors
    ///
    /// Where there is none, or the database does not answer whether there is.
    pub async fn has_hook(
        self: &Arc<Self>,
        namespace: &str,
        path: &str,
    ) -> Result<(), IntakeError> {
        self.live_hook(namespace, path).await.map(drop)
    }

    /// What the source of a hook asks before it delivers, where it asks for anything.
    ///
    /// # Errors
    ///
    /// Where there is no such hook, or the database does not answer whether there is.
    pub async fn hook_challenge(
        self: &Arc<Self>,
        namespace: &str,
        path: &str,
    ) -> Result<Option<Challenge>, IntakeError> {
        let release = self.live_hook(namespace, path).await?;
        Ok(webhook_of(&release)?.challenge)
    }

    /// Finds the hook of a request, and verifies the request's signature or token.
    ///
    /// # Errors
    ///
    /// Where there is no such hook, or the verification fails. The latter is one error whatever is
    /// wrong; the reason is counted, and logged and recorded now and then.
    pub async fn authenticate(
        self: &Arc<Self>,
        arrival: WebhookRequest,
    ) -> Result<Authentic, IntakeError> {
        let release = self.live_hook(&arrival.namespace, &arrival.path).await?;
        let webhook = webhook_of(&release)?;
        let (url, secrets) = match &webhook.auth {
            WebhookAuth::None => (String::new(), Vec::new()),
            WebhookAuth::Signature { secret, .. } | WebhookAuth::Token { secret, .. } => (
                public_address(self, &arrival),
                signing_secrets(self, release.namespace_id, secret).await,
            ),
        };
        let call = SignedRequest {
            headers: &arrival.headers,
            url: &url,
            query: &arrival.query,
            body: &arrival.body,
        };
        let is_form = call.is_form();
        match signature::judge(&webhook.auth, &secrets, &call, self.clock.now()) {
            Ok(()) => {
                let text_digest = signature::text_digest(&webhook.auth, &call);
                Ok(Authentic {
                    release,
                    arrival,
                    is_form,
                    text_digest,
                })
            }
            Err(error) => {
                note_auth_failure(self, &release, error);
                Err(IntakeError::SignatureInvalid)
            }
        }
    }

    /// Accepts a verified request.
    ///
    /// # Errors
    ///
    /// Where it has no key, brings another payload for a known one, or cannot be stored.
    pub async fn deliver(self: &Arc<Self>, delivery: Authentic) -> Result<Intake, IntakeError> {
        let Authentic {
            release,
            arrival,
            is_form,
            text_digest,
        } = delivery;
        let webhook = webhook_of(&release)?;
        let digest = webhook.holds_replays.then(|| match text_digest {
            Some(digest) => (digest, false),
            None => (Sha256::digest(&arrival.body).into(), true),
        });
        let seen = |read: (&Request, &Value)| {
            digest.map(|digest| Seen::of(&release, webhook, digest, read))
        };
        let read = match is_form {
            true => read_form(&arrival.body),
            false => read_payload(arrival.body),
        };
        let (input, text) = match read {
            Ok(read) => read,
            Err(error) => {
                // Another reading of the same text may be one that can be read.
                let unread = seen((&Request::default(), &Value::Null));
                replay::pass_over(self, &release, unread.as_ref()).await?;
                note_refusal(self, &release, &error, &error.to_string()).await;
                return Err(error);
            }
        };
        let headers = match release.reads_headers {
            true => to_object(arrival.headers, &unseen_headers(&webhook.auth)),
            false => Value::Null,
        };
        let query = match release.reads_query {
            true => to_object(arrival.query, &[]),
            false => Value::Null,
        };
        let (request, trigger) = (Request { headers, query }, describe(TriggerKind::Webhook));
        let seen = seen((&request, &input));
        let scope = request.scope(&release, &trigger, &input);
        let key = match tell(webhook.when.as_ref(), &webhook.key, &scope) {
            Ok(Some(key)) => key,
            Ok(None) => {
                replay::pass_over(self, &release, seen.as_ref()).await?;
                self.metrics.ignored.add_one();
                return Ok(Intake::Ignored);
            }
            Err(reason) => {
                replay::pass_over(self, &release, seen.as_ref()).await?;
                return Err(refuse(self, &release, reason).await);
            }
        };
        let Request { headers, query } = request;
        let (kind, named, mismatch) = (
            TriggerKind::Webhook,
            (KeySpace::Given, key),
            webhook.mismatch,
        );
        let mut inbound = Inbound {
            resumes: webhook.resumes,
            replays: webhook.replays,
            headers,
            query,
            ..Inbound::new(release.clone(), kind, named, (input, text), mismatch)
        };
        if !webhook.clock_fields.is_empty() {
            inbound.fingerprint = fingerprint(&inbound.input, &webhook.clock_fields);
        }
        if let Err(error) = self.must_fit(&inbound).await {
            replay::pass_over(self, &release, seen.as_ref()).await?;
            return Err(error);
        }
        self.must_have_room(&inbound).await?;
        let earlier = match &seen {
            Some(seen) => replay::earlier_key(self, &release, seen, &inbound.key).await?,
            None => None,
        };
        match earlier {
            None => self.accept(inbound).await,
            Some(first) => replay::hold(self, &inbound, first).await,
        }
    }

    /// Counts a request to a hook that was refused for its size, and records it where the last such
    /// record is old: nothing of it was read, so that anybody may have sent it.
    pub async fn note_too_large(self: &Arc<Self>, namespace: &str, path: &str) {
        if let Ok(release) = self.live_hook(namespace, path).await {
            note_unread(self, &release, &IntakeError::TooLarge).await;
        }
    }

    /// How many requests to each hook failed verification, by namespace and flow.
    pub fn count_auth_failures(self: &Arc<Self>) -> Vec<(String, String, u64)> {
        self.local.auth_failures.list()
    }
}

fn webhook_of(release: &Release) -> Result<&Webhook, IntakeError> {
    let webhook = release.flow.trigger.webhook.as_ref();
    webhook.ok_or(IntakeError::UnknownHook)
}

/// The address that the source was given, as far as the installation knows.
fn public_address(runtime: &Runtime, arrival: &WebhookRequest) -> String {
    let base = runtime.options.public_url.trim_end_matches('/');
    format!("{base}{}", arrival.target)
}

/// The versions of a secret that deliveries may be signed with, the latest first.
async fn signing_secrets(runtime: &Runtime, namespace_id: i32, name: &str) -> Vec<SecretText> {
    let known = runtime
        .vault
        .secrets(namespace_id, name, runtime.clock.now());
    // Another server may have set one a moment ago. Without any, nothing is accepted.
    if known.is_empty()
        && runtime
            .local
            .vault_lookups
            .look(|| runtime.vault.refresh())
            .await
            .is_ok()
    {
        return runtime
            .vault
            .secrets(namespace_id, name, runtime.clock.now());
    }
    known
}

/// A token is a secret, in whichever header it comes.
fn unseen_headers(auth: &WebhookAuth) -> Vec<&str> {
    let mut unseen = UNSEEN_HEADERS.to_vec();
    if let WebhookAuth::Token { header, .. } = auth {
        unseen.push(header);
    }
    unseen
}

/// Counts a request that failed verification, and records it where the last such record is old. Not
/// while the sender waits: the time of the answer must not reveal what was wrong.
fn note_auth_failure(runtime: &Arc<Runtime>, release: &Arc<Release>, error: VerifyError) {
    let namespace = release.namespace.as_str();
    let flow = release.flow.name.as_str();
    if !runtime
        .local
        .auth_failures
        .note(namespace, flow, runtime.clock.now())
    {
        return;
    }
    tracing::warn!(
        namespace,
        flow,
        reason = error.as_str(),
        "webhook signature verification failed"
    );
    let (runtime, release) = (runtime.clone(), release.clone());
    tokio::spawn(async move {
        let flow = release.flow.name.as_str();
        let code = IntakeError::SignatureInvalid.code();
        let id = release.namespace_id;
        let kept = refused_deliveries::append(&runtime.cell, id, flow, code, error.as_str()).await;
        if let Err(error) = kept {
            tracing::debug!(%error, flow, "failed to record a refused delivery");
        }
    });
}
