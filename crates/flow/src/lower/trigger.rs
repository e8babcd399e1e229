//! Triggers, lowered: what a preset brings is written out, so that a release stands by itself.

use semel_model::{FlowName, Mismatch};

use crate::expr::Expr;
use crate::provider::{self, Algorithm, Encoding, Provider, Secret, Unit};
use crate::release::{
    EventTrigger, Part, Scheme, Sent, SentAt, Signature, Start, Triggers, Webhook, WebhookAuth,
};
use crate::tree::Record;

/// What the key of a preset may read.
const KEY_ROOTS: [&str; 2] = ["input", "headers"];

pub(super) fn triggers(trigger: &Record, flow: &FlowName) -> Option<Triggers> {
    let webhook = match trigger.map("webhook") {
        Some(record) => Some(webhook(record, flow)?),
        None => None,
    };
    Some(Triggers {
        webhook,
        api: trigger.map("api").map(start),
        manual: trigger.map("manual").map(start),
        event: match trigger.map("event") {
            Some(record) => Some(event(record)?),
            None => None,
        },
    })
}

fn event(record: &Record) -> Option<EventTrigger> {
    Some(EventTrigger {
        name: record.text("name")?.to_owned(),
        key: record.expr("key").map(|placed| placed.expr.clone()),
        when: record.expr("when").map(|placed| placed.expr.clone()),
        mismatch: mismatch(record),
        resumes: resumes(record),
    })
}

fn webhook(record: &Record, flow: &FlowName) -> Option<Webhook> {
    let path = record.text("path").unwrap_or(flow.as_str()).to_owned();
    let provider = match record.text("provider") {
        Some(name) => Some(provider::find(name)?),
        None => None,
    };
    let auth = auth(record, provider)?;
    let key = match (record.expr("key"), provider) {
        (Some(placed), _) => placed.expr.clone(),
        (None, Some(provider)) => Expr::compile(provider.key, &KEY_ROOTS).ok()?,
        (None, None) => return None,
    };
    Some(Webhook {
        path,
        when: record.expr("when").map(|placed| placed.expr.clone()),
        mismatch: mismatch(record),
        resumes: resumes(record),
        holds_replays: !covers_key(&auth, &key) && record.word("replay") == Some("hold"),
        clock_fields: provider.map_or_else(Vec::new, |provider| {
            let fields = provider.clock_fields.iter();
            fields.map(|field| (*field).to_owned()).collect()
        }),
        auth,
        key,
    })
}

/// Whether nobody who merely captured a delivery can send it again under another key. Without a
/// signature there is nothing to capture: whoever can deliver once can deliver anything.
fn covers_key(auth: &WebhookAuth, key: &Expr) -> bool {
    match auth {
        WebhookAuth::None | WebhookAuth::Token { .. } => true,
        WebhookAuth::Signature { signature, .. } => {
            let paths = key.references();
            paths.iter().all(|path| signature.covers(path))
        }
    }
}

fn auth(record: &Record, provider: Option<&Provider>) -> Option<WebhookAuth> {
    if record.word("auth") == Some("none") {
        return Some(WebhookAuth::None);
    }
    let secret = record.text("secret")?.to_owned();
    let Some(said) = record.map("auth") else {
        let signature = provider?.signature.as_ref()?.into();
        return Some(WebhookAuth::Signature { secret, signature });
    };
    if let Some(token) = said.map("token") {
        let header = token.word("header")?.to_ascii_lowercase();
        return Some(WebhookAuth::Token { header, secret });
    }
    let signature = hmac(said.map("hmac")?)?;
    Some(WebhookAuth::Signature { secret, signature })
}

/// A signature as its author describes it: `HEADER.….TIME.BODY`, of which all but the body may be
/// absent.
fn hmac(said: &Record) -> Option<Signature> {
    let covered = said.list("covers").iter().map(|item| {
        let name = item.value.as_text()?;
        Some(Part::Header(name.to_ascii_lowercase()))
    });
    let mut parts = covered.collect::<Option<Vec<_>>>()?;
    let sent = match said.text("timestamp") {
        Some(header) => Some(Sent {
            at: SentAt::Header(header.to_ascii_lowercase()),
            unit: Unit::Seconds,
            tolerance: said.span_of("tolerance")?,
        }),
        None => None,
    };
    parts.extend(sent.is_some().then_some(Part::Sent));
    let dotted = parts
        .into_iter()
        .flat_map(|part| [part, Part::Text(".".to_owned())]);
    Some(Signature {
        header: said.text("header")?.to_ascii_lowercase(),
        separator: None,
        schemes: vec![Scheme {
            prefix: said.text("prefix").unwrap_or_default().to_owned(),
            algorithm: match said.word("algorithm")? {
                "sha512" => Algorithm::HmacSha512,
                _ => Algorithm::HmacSha256,
            },
            encoding: match said.word("encoding")? {
                "base64" => Encoding::Base64,
                _ => Encoding::Hex,
            },
            secret: Secret::Text,
        }],
        signed: dotted.chain([Part::Body]).collect(),
        sent,
    })
}

fn start(record: &Record) -> Start {
    Start {
        key: record.expr("key").map(|placed| placed.expr.clone()),
        mismatch: mismatch(record),
        resumes: resumes(record),
    }
}

fn mismatch(record: &Record) -> Mismatch {
    match record.word("mismatch") {
        Some("accept") => Mismatch::Accept,
        Some("quarantine") => Mismatch::Quarantine,
        Some(_) | None => Mismatch::Reject,
    }
}

fn resumes(record: &Record) -> bool {
    record.word("on_repeat") == Some("resume")
}
