//! Keys: show, audit and drop. The key is a query parameter, since it may be any text.

use std::sync::LazyLock;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use semel_api::Code;
use semel_api::types::{
    Differing, DifferingField, DropKey, Dropped, KeyAudit, KeyFilter, KeyInfo, LateKey, LateKeys,
    Page, SharedPayload, SharedPayloads,
};
use semel_engine::key_audit::{Field, audit_keys};
use semel_engine::{DropError, DropWish};
use semel_model::{ClaimId, Key, Right, Span};
use semel_store::key_audit::LateRepeat;
use semel_store::key_story::StoryOf;
use semel_store::{claims, named_effects, runs};
use serde::Deserialize;

use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;
use crate::body::Payload;
use crate::commands::{self, Command, Reply};
use crate::cursor;
use crate::error::ApiError;
use crate::list_memory::ListMemory;
use crate::places::FairPlaces;
use crate::query::{Named, OfKey, Params, page_size};
use crate::runs::run_status;
use crate::{key_story, key_verdict, payloads};

/// How many named effects of a key are told of.
const NAMES_MAX: u16 = 50;

/// `GET /v1/keys/{flow}?key=`.
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    flow: Named,
    Params(of): Params<OfKey>,
) -> Answered {
    let (flow, key) = (flow.flow()?, of.read()?);
    let claim = claims::find_by_key(app.cell().every(), &caller.namespace, &flow, &key)
        .await?
        .ok_or_else(|| ApiError::plain(Code::KeyNotFound))?;
    let id = caller.namespace_id;
    let run = runs::find(app.cell().of(claim.run), id, claim.run).await?;
    let names = named_effects::list_of_key(app.cell().every(), id, &key, NAMES_MAX).await?;
    let story = key_story::read(&app, id, &[StoryOf::Key(claim.run)], &names).await;
    let shown = KeyInfo {
        flow,
        key: key.text(),
        claim: claim.id,
        run: claim.run,
        state: run.as_ref().map(run_status),
        fingerprint: Some(claim.fingerprint.to_string()),
        expires_at: claim.expires_at,
        verdict: key_verdict::sentences(&story),
    };
    payloads::ok(&caller, shown)
}

/// `GET /v1/flows/{flow}/keys`: the keys that a run answers for, those of the newest runs first. A page
/// may be shorter than asked for, since an earlier run of a key is left out.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    flow: Named,
    Params(filter): Params<KeyFilter>,
) -> Answered {
    let flow = flow.flow()?;
    let limit = page_size(filter.limit);
    let wanted = runs::RunFilter {
        flow: Some(flow.to_string()),
        release: None,
        state: None,
        before: cursor::read(filter.cursor.as_deref())?,
    };
    // The runs have results.
    let _memory = ListMemory::take(&app, caller.namespace_id).await?;
    let found = runs::list(app.cell().every(), caller.namespace_id, &wanted, limit).await?;
    let next = found.next.map(cursor::write_position);
    let asked: Vec<ClaimId> = found.items.iter().map(|run| run.claim).collect();
    let held = claims::list_held(app.cell().every(), &asked).await?;
    let mut items = Vec::new();
    for run in &found.items {
        let Some(claim) = held.iter().find(|claim| claim.run == run.id) else {
            continue;
        };
        items.push(KeyInfo {
            flow: flow.clone(),
            key: run.key.text(),
            claim: claim.id,
            run: claim.run,
            state: Some(run_status(run)),
            fingerprint: Some(claim.fingerprint.to_string()),
            expires_at: claim.expires_at,
            verdict: Vec::new(),
        });
    }
    payloads::ok(&caller, Page { items, next })
}

/// An audit reads all deliveries of a flow, on a connection that lists have as well: few at a time, and one of each
/// namespace.
static AUDITS: LazyLock<FairPlaces<i32>> = LazyLock::new(|| FairPlaces::new(AUDITS_MAX, 1));

/// How many audits are read at a time: half as many as there are connections for lists.
const AUDITS_MAX: usize = 2;

/// How long one waits for its turn.
const AUDIT_PATIENCE: Duration = Duration::from_secs(2);

/// How soon to ask again while another audit is read.
const AUDIT_RETRY_SECS: u64 = 5;

/// `?window=`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Window {
    #[serde(default = "three_days")]
    window: Span,
}

/// As long as the sources that retry longest redeliver.
fn three_days() -> Span {
    Span::from_secs(3 * 86_400)
}

/// `GET /v1/keys/{flow}/audit?window=`.
pub(crate) async fn audit(
    State(app): State<App>,
    caller: Caller,
    flow: Named,
    Params(Window { window }): Params<Window>,
) -> Answered {
    let flow = flow.flow()?;
    let Some(_turn) = AUDITS.wait(caller.namespace_id, AUDIT_PATIENCE).await else {
        let detail = "another audit of keys is read at this moment";
        let error = ApiError::new(Code::TooManyRequests, detail);
        return Err(error.retry_in(Span::from_secs(AUDIT_RETRY_SECS)));
    };
    let found = audit_keys(app.cell().every(), caller.namespace_id, &flow, window)
        .await?
        .ok_or_else(|| ApiError::plain(Code::FlowNotFound))?;
    let text = |keys: Vec<Key>| keys.iter().map(Key::text).collect();
    let field = |field: Field| DifferingField {
        path: field.path,
        deliveries: field.deliveries,
        example: field.example.text(),
    };
    let shared = |(keys, examples)| SharedPayload {
        keys,
        examples: text(examples),
    };
    let late = |late: LateRepeat| LateKey {
        key: late.key.text(),
        run: late.run,
        count: late.count,
        after: late.after,
    };
    answer::ok(&KeyAudit {
        flow,
        deliveries: found.deliveries,
        keys: found.keys,
        window,
        differing: Differing {
            payloads: found.differing.payloads,
            deliveries: found.differing.deliveries,
            fields: found.differing.fields.into_iter().map(field).collect(),
        },
        shared: SharedPayloads {
            payloads: found.shared.payloads,
            runs: found.shared.runs,
            examples: found.shared.examples.into_iter().map(shared).collect(),
        },
        late: LateKeys {
            count: found.late.count,
            examples: found.late.examples.into_iter().map(late).collect(),
        },
    })
}

/// `POST /v1/keys/{flow}/drop?key=`.
pub(crate) async fn drop_key(
    State(app): State<App>,
    caller: Caller,
    flow: Named,
    Params(of): Params<OfKey>,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let (flow, key) = (flow.flow()?, of.read()?);
    let (DropKey { reason, new_intent }, body) = payload.read()?;
    if new_intent && !caller.may(Right::Override) {
        return Err(caller.lacks(Right::Override));
    }
    let subject = format!("{flow}?{}", of.key);
    let command = Command {
        verb: "drop",
        subject: &subject,
        body: &body,
        headers: &headers,
    };
    let (engine, asking) = (app.engine.clone(), caller.clone());
    commands::once(app, &caller, command, async move {
        let (id, namespace) = (asking.namespace_id, &asking.namespace);
        let actor = asking.actor();
        let wish = DropWish {
            reason: &reason,
            new_intent,
        };
        let run = engine
            .drop_key(id, namespace, &flow, &key, wish, &actor)
            .await?;
        tracing::info!(run.id = %run, actor, "key dropped");
        let done = Dropped {
            flow,
            key: key.text(),
            run,
        };
        Reply::new(StatusCode::OK, &done)
    })
    .await
}

impl From<DropError> for ApiError {
    fn from(error: DropError) -> Self {
        match error {
            DropError::Unknown => Self::plain(Code::KeyNotFound),
            DropError::RunNotEnded { run } => {
                Self::new(Code::RunNotEnded, format!("{run} has not ended")).about(run)
            }
            DropError::Reason(error) => error.into(),
            DropError::Unavailable(cause) => Self::database(&cause),
        }
    }
}
