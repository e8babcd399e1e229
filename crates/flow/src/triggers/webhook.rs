//! `webhook`: a request to a hook.

mod auth;
mod check;
mod schema;

pub use auth::WebhookAuth;

use std::collections::BTreeSet;

use semel_model::{FlowName, Mismatch, Span, TriggerKind};
use serde::Serialize;

use super::fields::{mismatch, replays, resumes};
use super::order::{self, Order};
use super::{Proof, TriggerSpec};
use crate::expr::{Expr, Path};
use crate::outline::Outline;
use crate::provider::{self, Challenge, Provider};
use crate::tree::Record;

/// The kind.
pub(crate) static SPEC: TriggerSpec = TriggerSpec {
    kind: TriggerKind::Webhook,
    about: "A request to a webhook address.",
    schema: &schema::SCHEMA,
    check: Some(check::check),
    implied_key: |webhook| match provider_of(webhook) {
        Some(provider) => provider.key,
        None => "named by the caller",
    },
    proof,
    has_instant: false,
};

/// The source that a webhook names.
pub(crate) fn provider_of(webhook: &Record) -> Option<&'static Provider> {
    webhook.text("provider").and_then(provider::find)
}

fn proof(webhook: &Record) -> Proof {
    let signs = provider_of(webhook).is_some_and(|provider| provider.signature.is_some());
    match webhook.map("auth") {
        Some(auth) if auth.has("token") => Proof::Token,
        Some(_) => Proof::Signature,
        None if signs && !webhook.has("auth") => Proof::Signature,
        None => Proof::Nothing,
    }
}

/// What the key of a preset may read.
const KEY_ROOTS: [&str; 2] = ["input", "headers"];

/// A hook at `/hooks/{namespace}/{path}`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Webhook {
    /// The last part of its address.
    pub path: String,
    /// How a delivery proves where it comes from.
    pub auth: WebhookAuth,
    /// What two deliveries of one intent have in common.
    pub key: Expr,
    /// Deliveries for which this is false start nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<Expr>,
    /// Which delivery about one object is newer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// What happens to a known key with another payload.
    pub mismatch: Mismatch,
    /// Whether a repeat resumes a run that failed, behind its ledger.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resumes: bool,
    /// Whether a repeat replays a run that failed, on the release that is live then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replays: bool,
    /// Whether what is signed and comes again under another key is held for an operator. True only
    /// where the signature does not cover the key, or what `when` reads.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub holds_replays: bool,
    /// Paths of the payload that may differ between two deliveries of one event, and so are no
    /// mismatch. `*` is each item of a list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clock_fields: Vec<String>,
    /// How long the response is held for the run's result; nothing if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub respond_within: Option<Span>,
    /// What the source asks before it delivers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub challenge: Option<Challenge>,
}

pub(super) fn lower(record: &Record, flow: &FlowName) -> Option<Webhook> {
    let path = record.text("path").unwrap_or(flow.as_str()).to_owned();
    let provider = match record.text("provider") {
        Some(name) => Some(provider::find(name)?),
        None => None,
    };
    let auth = WebhookAuth::lower(record, provider)?;
    let when = record.expr("when").map(|placed| placed.expr.clone());
    let key = match (record.expr("key"), provider) {
        (Some(placed), _) => placed.expr.clone(),
        (None, Some(provider)) => Expr::compile(provider.key, &KEY_ROOTS).ok()?,
        (None, None) => return None,
    };
    Some(Webhook {
        path,
        holds_replays: holds_replays(record, &auth, &key, when.as_ref()),
        when,
        order: order::lower(record),
        mismatch: mismatch(record),
        resumes: resumes(record),
        replays: replays(record),
        clock_fields: provider.map_or_else(Vec::new, |provider| {
            let fields = provider.clock_fields.iter();
            fields.map(|field| (*field).to_owned()).collect()
        }),
        respond_within: match record.word("respond") {
            Some(_) => record.span_of("within"),
            None => None,
        },
        challenge: provider.and_then(|provider| provider.challenge),
        auth,
        key,
    })
}

/// A text that does not settle its payload is always held: no source sends one text for two intents.
fn holds_replays(record: &Record, auth: &WebhookAuth, key: &Expr, when: Option<&Expr>) -> bool {
    let must = match auth {
        WebhookAuth::None | WebhookAuth::Token { .. } => false,
        WebhookAuth::Signature { signature, .. } => !signature.settles_payload(),
    };
    let covered = covers(auth, key) && when.is_none_or(|when| covers(auth, when));
    !covered && (must || record.word("replay") == Some("hold"))
}

/// Whether a sender who merely captured a delivery cannot send it again with another value of this. Without
/// a signature there is nothing to capture: a sender who can deliver once can deliver anything.
fn covers(auth: &WebhookAuth, expr: &Expr) -> bool {
    match auth {
        WebhookAuth::None | WebhookAuth::Token { .. } => true,
        WebhookAuth::Signature { signature, .. } => {
            let paths = expr.references();
            paths.iter().all(|path| signature.covers(path))
        }
    }
}

impl Webhook {
    /// The paths that `when` reads and the signature does not cover. Empty without a signature.
    #[must_use]
    pub fn unsigned_in_when(&self) -> Vec<&Path> {
        let WebhookAuth::Signature { signature, .. } = &self.auth else {
            return vec![];
        };
        let read = self.when.iter().flat_map(Expr::references);
        read.filter(|path| !signature.covers(path)).collect()
    }
}

/// The paths that a flow reads and the signature of its deliveries does not cover, without repeats. Of the
/// payload only `input` as a whole: it is covered or not as one.
pub(crate) fn unsigned(webhook: &Record, outline: &Outline<'_>) -> Vec<String> {
    let auth = WebhookAuth::lower(webhook, provider_of(webhook));
    let Some(WebhookAuth::Signature { signature, .. }) = auth else {
        return vec![];
    };
    let mut found = BTreeSet::new();
    outline.each_expr(|_, _, placed| {
        let paths = placed.expr.references().iter();
        let open = paths.filter(|path| !signature.covers(path));
        found.extend(open.map(shown));
    });
    found.into_iter().collect()
}

fn shown(path: &Path) -> String {
    match path.root.as_str() {
        "input" => path.root.clone(),
        _ => path.to_string(),
    }
}
