//! Connections: list, show, create, replace, delete, test.

use std::collections::HashMap;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use semel_api::Code;
use semel_api::types::{
    Change, Connection, DeletedConnection, KeptConnection, Page, Pause, PutConnection, Tried,
    UnprovenFlow,
};
use semel_engine::vault::hosts;
use semel_engine::{ConnectionChange, ConnectionError, SecretView};
use semel_model::{Fault, Label, Right};
use semel_store::ReadError;
use semel_store::connections::{self, ConnectionRow};
use semel_store::pauses::PauseKind;
use serde_json::json;

use crate::answer::{self, Answered};
use crate::app::{App, Shared};
use crate::auth::Caller;
use crate::body::Payload;
use crate::commands::{self, Command, Reply};
use crate::error::ApiError;
use crate::pauses;
use crate::query::Named;

/// `GET /v1/connections`.
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Answered {
    let rows = app.engine.list_connections(caller.namespace_id).await?;
    let set = list_set(&app, caller.namespace_id).await?;
    let mut paused = pauses::by_name(&app, caller.namespace_id, PauseKind::Connection).await?;
    let rows = rows.into_iter();
    answer::ok(&Page {
        items: rows.map(|row| shown(row, &set, &mut paused)).collect(),
        next: None,
    })
}

/// `GET /v1/connections/{name}`.
pub(crate) async fn show(State(app): State<App>, caller: Caller, name: Named) -> Answered {
    let name: Label = name.read(Code::ConnectionNotFound)?;
    let found = connections::find(app.cell().home(), caller.namespace_id, name.as_str()).await?;
    let row = found.ok_or_else(|| ApiError::plain(Code::ConnectionNotFound))?;
    let set = list_set(&app, caller.namespace_id).await?;
    let mut paused = pauses::by_name(&app, caller.namespace_id, PauseKind::Connection).await?;
    answer::ok(&shown(row, &set, &mut paused))
}

/// `PUT /v1/connections/{name}`.
pub(crate) async fn put(
    State(app): State<App>,
    caller: Caller,
    name: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let name: Label = name
        .as_str()
        .parse()
        .map_err(|error| ApiError::new(Code::ConnectionInvalid, format!("{error}")))?;
    let (put, body): (PutConnection, _) = payload.read()?;
    let command = Command {
        verb: "connection put",
        subject: name.as_str(),
        body: &body,
        headers: &headers,
    };
    let (shared, asking, name) = (app.clone(), caller.clone(), name.clone());
    commands::once(app, &caller, command, async move {
        let actor = asking.actor();
        let by = asking.acting(&actor);
        let (engine, wanted) = (&shared.engine, &put.connection);
        let checking = engine.check_secret_hosts(asking.namespace_id, name.as_str(), wanted);
        let in_question = checking.await?;
        if !in_question.is_empty() && !asking.may(Right::Secret) {
            return Err(lacks_secret_right(&asking, &in_question));
        }
        let (version, kept) = match put.replace {
            true => engine.replace_connection(by, name.as_str(), wanted).await?,
            false => engine.keep_connection(by, name.as_str(), wanted).await?,
        };
        tracing::info!(connection = %name, version, actor, "connection stored");
        let set = list_set(&shared, asking.namespace_id).await?;
        let (status, change) = match kept {
            ConnectionChange::Created => (StatusCode::CREATED, Change::Created),
            ConnectionChange::Replaced => (StatusCode::OK, Change::Replaced),
            ConnectionChange::Unchanged => (StatusCode::OK, Change::Unchanged),
        };
        let done = KeptConnection {
            name: name.to_string(),
            version,
            change,
            missing: list_missing(wanted, &set),
            unproven: leave_unproven(&shared, asking.namespace_id, &name, kept).await,
        };
        Reply::new(status, &done)
    })
    .await
}

/// Who stores a connection decides where its secrets go, and who can read them on the way.
fn lacks_secret_right(caller: &Caller, secrets: &[String]) -> ApiError {
    let detail = format!(
        "{} does not have the right `secret`, which is needed for these secrets: {}. They are not set or may go to any host, are used in another way than so far, or would be sent unencrypted",
        caller.in_words(),
        secrets.join(", ")
    );
    ApiError::new(Code::RightMissing, detail).with_hint(
        "Ask a holder of the right `secret` to run `semel secret set NAME --host HOST`, or use a token that has that right."
            .to_owned(),
    )
}

/// The live releases that a change of a connection leaves unproven. They are rehearsed in the
/// background.
async fn leave_unproven(
    app: &Shared,
    namespace_id: i32,
    name: &Label,
    change: ConnectionChange,
) -> Vec<UnprovenFlow> {
    if change == ConnectionChange::Unchanged {
        return Vec::new();
    }
    app.rehearsals.look_again();
    let listed = semel_rehearse::list_unproven(app.engine.cell(), namespace_id, name.as_str());
    let listed = listed.await.unwrap_or_else(|error| {
        // The connection is stored: `flow list` shows what is not proven.
        tracing::warn!(%error, connection = %name, "cannot tell which releases are not proven any more");
        Vec::new()
    });
    let mut unproven = Vec::with_capacity(listed.len());
    for release in listed {
        announce_unproven(app, namespace_id, &release.flow, name).await;
        unproven.push(UnprovenFlow {
            flow: release.flow,
            release: release.number,
        });
    }
    unproven
}

/// Tells people that the live release of a flow is not proven any more, because a connection changed.
async fn announce_unproven(app: &Shared, namespace_id: i32, flow: &str, connection: &Label) {
    tracing::warn!(namespace_id, flow, %connection, "a live release is not proven any more: connection changed");
    let raised = app
        .engine
        .raise_not_proven(namespace_id, flow, connection.as_str());
    if let Err(error) = raised.await {
        // `flow list` and `flow show` say it as well.
        tracing::warn!(%error, flow, "failed to raise an alert");
    }
}

/// `DELETE /v1/connections/{name}`.
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    name: Named,
    headers: HeaderMap,
) -> Answered {
    let name: Label = name.read(Code::ConnectionNotFound)?;
    let command = Command {
        verb: "connection delete",
        subject: name.as_str(),
        body: &json!({}),
        headers: &headers,
    };
    let (shared, asking, name) = (app.clone(), caller.clone(), name.clone());
    commands::once(app, &caller, command, async move {
        let actor = asking.actor();
        let deleting = shared
            .engine
            .delete_connection(asking.acting(&actor), name.as_str());
        deleting.await?;
        tracing::info!(connection = %name, actor, "connection deleted");
        leave_unproven(
            &shared,
            asking.namespace_id,
            &name,
            ConnectionChange::Replaced,
        )
        .await;
        let name = name.to_string();
        Reply::new(StatusCode::OK, &DeletedConnection { name })
    })
    .await
}

/// `POST /v1/connections/{name}/test`.
pub(crate) async fn test(State(app): State<App>, caller: Caller, name: Named) -> Answered {
    let name: Label = name.read(Code::ConnectionNotFound)?;
    let (engine, namespace_id) = (&app.engine, caller.namespace_id);
    let tried = engine.test_connection(namespace_id, name.as_str()).await?;
    answer::ok(&tell(&name, tried))
}

/// `POST /v1/connections/{name}/prepare`.
pub(crate) async fn prepare(State(app): State<App>, caller: Caller, name: Named) -> Answered {
    let name: Label = name.read(Code::ConnectionNotFound)?;
    let actor = caller.actor();
    let by = caller.acting(&actor);
    let tried = app.engine.prepare_connection(by, name.as_str()).await?;
    answer::ok(&tell(&name, tried))
}

fn tell(name: &Label, tried: Result<String, Fault>) -> Tried {
    let (ok, found, code) = match tried {
        Ok(found) => (true, found, None),
        Err(fault) => (false, fault.message, Some(fault.code)),
    };
    Tried {
        name: name.to_string(),
        ok,
        found,
        code,
    }
}

/// The names of the secrets that are set.
async fn list_set(app: &Shared, namespace_id: i32) -> Result<Vec<SecretView>, ReadError> {
    app.engine.list_secrets(namespace_id).await
}

/// The secrets that a connection names and does not send: they are not set, or are bound to other hosts.
fn list_missing(connection: &semel_model::Connection, set: &[SecretView]) -> Vec<String> {
    let is_sent = |name: &str| {
        let view = set.iter().find(|secret| secret.name == name);
        view.is_some_and(|secret| hosts::may_send(&secret.hosts, connection))
    };
    let named = connection.secrets().into_iter();
    let missing = named.filter(|name| !is_sent(name));
    missing.map(str::to_owned).collect()
}

/// A connection in its wire form, with its pause.
fn shown(
    row: ConnectionRow,
    set: &[SecretView],
    paused: &mut HashMap<String, Pause>,
) -> Connection {
    Connection {
        paused: paused.remove(&row.name),
        kind: row.connection.kind().to_owned(),
        missing: list_missing(&row.connection, set),
        name: row.name,
        version: row.version,
        connection: row.connection,
        created_at: row.created_at,
        changed_at: row.changed_at,
    }
}

impl From<ConnectionError> for ApiError {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::Invalid(detail) => Self::new(Code::ConnectionInvalid, detail),
            ConnectionError::InUse { flow } => {
                let detail = format!("the flow `{flow}` uses it");
                Self::new(Code::ConnectionInUse, detail)
            }
            ConnectionError::Subscribed { subscription } => {
                let detail = format!("the subscription `{subscription}` uses it");
                Self::new(Code::ConnectionInUse, detail)
            }
            ConnectionError::Unknown => Self::plain(Code::ConnectionNotFound),
            ConnectionError::Differs => Self::plain(Code::ConnectionDiffers),
            ConnectionError::SecretBoundElsewhere { secret, host } => {
                let detail = format!("the secret `{secret}` is not bound to `{host}`");
                Self::new(Code::SecretBoundElsewhere, detail)
            }
            ConnectionError::Unavailable(error) => error.into(),
        }
    }
}
