//! Connections: list, show, create, replace, delete, test.

use std::collections::BTreeSet;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use semel_api::Code;
use semel_api::types::{
    Change, Connection, DeletedConnection, KeptConnection, Page, PutConnection, Tried,
};
use semel_engine::{Actor, ConnectionChange, ConnectionError};
use semel_model::{Fault, Label};
use semel_store::ReadError;
use semel_store::connections::{self, ConnectionRow};
use serde_json::json;

use crate::answer::{self, Answered};
use crate::app::{App, Shared};
use crate::auth::Caller;
use crate::body::Payload;
use crate::commands::{self, Command, Reply};
use crate::error::ApiError;
use crate::query::Named;

/// `GET /v1/connections`.
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Answered {
    let rows = app.engine.list_connections(caller.namespace_id).await?;
    let set = list_set(&app, caller.namespace_id).await?;
    answer::ok(&Page {
        items: rows.into_iter().map(|row| view(row, &set)).collect(),
        next: None,
    })
}

/// `GET /v1/connections/{name}`.
pub(crate) async fn show(State(app): State<App>, caller: Caller, name: Named) -> Answered {
    let name: Label = name.read(Code::ConnectionNotFound)?;
    let found = connections::find(app.cell().home(), caller.namespace_id, name.as_str()).await?;
    let row = found.ok_or_else(|| ApiError::plain(Code::ConnectionNotFound))?;
    let set = list_set(&app, caller.namespace_id).await?;
    answer::ok(&view(row, &set))
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
        let by = by(&asking, &actor);
        let (engine, wanted) = (&shared.engine, &put.connection);
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
        };
        Reply::new(status, &done)
    })
    .await
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
    let (engine, asking, name) = (app.engine.clone(), caller.clone(), name.clone());
    commands::once(app, &caller, command, async move {
        let actor = asking.actor();
        engine
            .delete_connection(by(&asking, &actor), name.as_str())
            .await?;
        tracing::info!(connection = %name, actor, "connection deleted");
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
    let by = by(&caller, &actor);
    let tried = app.engine.prepare_connection(by, name.as_str()).await?;
    answer::ok(&tell(&name, tried))
}

/// The caller, for the engine's audit log.
pub(crate) fn by<'a>(caller: &Caller, actor: &'a str) -> Actor<'a> {
    Actor {
        namespace_id: caller.namespace_id,
        actor,
    }
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
async fn list_set(app: &Shared, namespace_id: i32) -> Result<BTreeSet<String>, ReadError> {
    let secrets = app.engine.list_secrets(namespace_id).await?;
    Ok(secrets.into_iter().map(|secret| secret.name).collect())
}

fn list_missing(connection: &semel_model::Connection, set: &BTreeSet<String>) -> Vec<String> {
    let named = connection.secrets().into_iter();
    let missing = named.filter(|name| !set.contains(*name));
    missing.map(str::to_owned).collect()
}

fn view(row: ConnectionRow, set: &BTreeSet<String>) -> Connection {
    Connection {
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
            ConnectionError::Unavailable(error) => error.into(),
        }
    }
}
