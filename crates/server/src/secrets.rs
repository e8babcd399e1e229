//! Secrets: set, list, delete, rotate. No route returns a secret's text.

use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use semel_api::Code;
use semel_api::types::{DeletedSecret, Page, Rotated, Secret, SecretSet, SetSecret};
use semel_engine::{SecretChange, VaultError};
use semel_model::Label;
use semel_store::ReadError;
use serde_json::json;
use zeroize::Zeroize as _;

use crate::answer::{self, Answered};
use crate::app::{App, Shared};
use crate::auth::Caller;
use crate::body::Payload;
use crate::commands::{self, Command, Reply};
use crate::error::ApiError;
use crate::query::Named;

/// `GET /v1/secrets`.
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Answered {
    let views = app.engine.list_secrets(caller.namespace_id).await?;
    let mut items = Vec::with_capacity(views.len());
    let named = list_named(&app, caller.namespace_id).await?;
    for view in views {
        items.push(Secret {
            connections: naming(&named, &view.name),
            name: view.name,
            version: view.version,
            set_at: view.set_at,
            former_until: view.former_until,
            hosts: view.hosts,
        });
    }
    answer::ok(&Page { items, next: None })
}

/// A secret as it was sent. The body is wiped after it was read; an error quotes nothing of it.
pub(crate) struct Sent(SetSecret);

impl FromRequest<App> for Sent {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let (body, _memory) = Payload::from_request(request, app).await?.into_parts();
        let read = serde_json::from_slice(&body);
        wipe(body);
        read.map(Self).map_err(|_| {
            let detail = "the body is {\"value\": \"…\"}, with \"overlap\": \"24h\" and \"hosts\": [\"api.example.com\"] where wanted";
            ApiError::new(Code::BodyInvalid, detail)
        })
    }
}

/// Wipes a body, where this is the only reference to it.
fn wipe(body: Bytes) {
    if let Ok(mut body) = body.try_into_mut() {
        body.as_mut().zeroize();
    }
}

/// `PUT /v1/secrets/{name}`.
pub(crate) async fn set(
    State(app): State<App>,
    caller: Caller,
    name: Named,
    headers: HeaderMap,
    Sent(set): Sent,
) -> Answered {
    let name: Label = name
        .as_str()
        .parse()
        .map_err(|error| ApiError::new(Code::SecretInvalid, format!("{error}")))?;
    let engine = app.engine.clone();
    let namespace_id = caller.namespace_id;
    // The table of commands keeps a digest of the body: a keyed one, from which a text cannot be
    // guessed.
    let body = json!({
        "value": engine.fingerprint_secret(namespace_id, name.as_str(), &set.value),
        "overlap": set.overlap,
        "hosts": set.hosts,
    });
    let command = Command {
        verb: "secret set",
        subject: name.as_str(),
        body: &body,
        headers: &headers,
    };
    let (asking, name) = (caller.clone(), name.clone());
    commands::once(app, &caller, command, async move {
        let actor = asking.actor();
        let (version, change) = engine
            .keep_secret(
                asking.acting(&actor),
                name.as_str(),
                (&set.value, set.hosts.as_deref()),
                set.overlap,
            )
            .await?;
        tracing::info!(secret = %name, version, ?change, actor, "secret set");
        let views = engine.list_secrets(namespace_id).await?;
        let view = views.into_iter().find(|view| view.name == name.as_str());
        let done = SecretSet {
            name: name.to_string(),
            version,
            changed: change != SecretChange::Unchanged,
            retired: change == SecretChange::Retired,
            former_until: view
                .and_then(|view| view.former_until)
                .filter(|until| *until > engine.now()),
        };
        let status = match (version, change) {
            (1, SecretChange::Set) => StatusCode::CREATED,
            (
                _,
                SecretChange::Set
                | SecretChange::Bound
                | SecretChange::Retired
                | SecretChange::Unchanged,
            ) => StatusCode::OK,
        };
        Reply::new(status, &done)
    })
    .await
}

/// `DELETE /v1/secrets/{name}`.
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    name: Named,
    headers: HeaderMap,
) -> Answered {
    let name: Label = name.read(Code::SecretNotFound)?;
    let command = Command {
        verb: "secret delete",
        subject: name.as_str(),
        body: &json!({}),
        headers: &headers,
    };
    let (shared, asking, name) = (app.clone(), caller.clone(), name.clone());
    commands::once(app, &caller, command, async move {
        let actor = asking.actor();
        let by = asking.acting(&actor);
        if !shared.engine.delete_secret(by, name.as_str()).await? {
            return Err(ApiError::plain(Code::SecretNotFound));
        }
        tracing::info!(secret = %name, actor, "secret deleted");
        let named = list_named(&shared, asking.namespace_id).await?;
        let done = DeletedSecret {
            connections: naming(&named, name.as_str()),
            name: name.to_string(),
        };
        Reply::new(StatusCode::OK, &done)
    })
    .await
}

/// `POST /v1/secrets/rotate`.
pub(crate) async fn rotate(State(app): State<App>, caller: Caller, headers: HeaderMap) -> Answered {
    let command = Command {
        verb: "secret rotate",
        subject: "*",
        body: &json!({}),
        headers: &headers,
    };
    let (engine, asking) = (app.engine.clone(), caller.clone());
    commands::once(app, &caller, command, async move {
        let actor = asking.actor();
        let secrets = engine.rotate_secrets(asking.acting(&actor)).await?;
        tracing::info!(
            secrets,
            actor,
            "secrets of a namespace encrypted with a new key"
        );
        Reply::new(StatusCode::OK, &Rotated { secrets })
    })
    .await
}

/// The connections of a namespace, each with the secrets that it names.
async fn list_named(
    app: &Shared,
    namespace_id: i32,
) -> Result<Vec<(String, Vec<String>)>, ReadError> {
    let rows = app.engine.list_connections(namespace_id).await?;
    let named = rows.into_iter().map(|row| {
        let secrets = row.connection.secrets().into_iter();
        (row.name.clone(), secrets.map(str::to_owned).collect())
    });
    Ok(named.collect())
}

fn naming(named: &[(String, Vec<String>)], secret: &str) -> Vec<String> {
    let naming = named
        .iter()
        .filter(|(_, secrets)| secrets.iter().any(|name| name == secret));
    naming.map(|(connection, _)| connection.clone()).collect()
}

impl From<VaultError> for ApiError {
    fn from(error: VaultError) -> Self {
        match error {
            VaultError::Length => Self::new(Code::SecretInvalid, error.to_string()),
            VaultError::Locked { .. } => Self::new(Code::VaultLocked, error.to_string()),
            VaultError::Unavailable(error) => error.into(),
        }
    }
}
