//! Alerts: show, set, unset and test where they go.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use semel_api::Code;
use semel_api::types::{
    AlertGroup, AlertMessage, AlertSetting, Alerts, AlertsSet, AlertsUnset, SetAlerts, TestedAlerts,
};
use semel_engine::AlertError;
use semel_store::alerts::{self, AlertGroupView, AlertMessageView};
use serde_json::json;

use crate::answer::Answered;
use crate::app::App;
use crate::auth::Caller;
use crate::body::Payload;
use crate::commands::{self, Command, Reply};
use crate::error::ApiError;
use crate::payloads;

/// The most groups that are shown.
const GROUPS_MAX: u16 = 200;

/// `GET /v1/alerts`.
pub(crate) async fn show(State(app): State<App>, caller: Caller) -> Answered {
    let (cell, namespace_id) = (app.cell(), caller.namespace_id);
    let setting = alerts::find(cell.home(), namespace_id).await?;
    let groups = alerts::list_groups(cell.home(), namespace_id, GROUPS_MAX).await?;
    let alerts = Alerts {
        setting: setting.map(view_setting),
        groups: groups.into_iter().map(view_group).collect(),
    };
    payloads::ok(&caller, alerts)
}

/// `PUT /v1/alerts`.
pub(crate) async fn set(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let (set, body): (SetAlerts, _) = payload.read()?;
    let command = Command {
        verb: "alert set",
        subject: "",
        body: &body,
        headers: &headers,
    };
    let (engine, asking) = (app.engine.clone(), caller.clone());
    commands::once(app, &caller, command, async move {
        let actor = asking.actor();
        let SetAlerts { connection, to } = set;
        engine
            .set_alerts(asking.acting(&actor), &connection, &to)
            .await?;
        tracing::info!(connection, actor, "alerts set");
        Reply::new(StatusCode::OK, &AlertsSet { connection, to })
    })
    .await
}

/// `DELETE /v1/alerts`.
pub(crate) async fn unset(State(app): State<App>, caller: Caller, headers: HeaderMap) -> Answered {
    let command = Command {
        verb: "alert unset",
        subject: "",
        body: &json!({}),
        headers: &headers,
    };
    let (engine, asking) = (app.engine.clone(), caller.clone());
    commands::once(app, &caller, command, async move {
        let actor = asking.actor();
        engine.unset_alerts(asking.acting(&actor)).await?;
        tracing::info!(actor, "alerts unset");
        Reply::new(StatusCode::OK, &AlertsUnset { set: false })
    })
    .await
}

/// `POST /v1/alerts/test`.
pub(crate) async fn test(State(app): State<App>, caller: Caller, headers: HeaderMap) -> Answered {
    let command = Command {
        verb: "alert test",
        subject: "",
        body: &json!({}),
        headers: &headers,
    };
    let (engine, asking) = (app.engine.clone(), caller.clone());
    commands::once(app, &caller, command, async move {
        let actor = asking.actor();
        let outcome = engine.test_alerts(asking.acting(&actor)).await?;
        let (word, note) = outcome.parts();
        let tested = TestedAlerts {
            outcome: word.to_owned(),
            note: note.map(str::to_owned),
        };
        Reply::new(StatusCode::OK, &tested)
    })
    .await
}

fn view_setting(setting: alerts::AlertSetting) -> AlertSetting {
    AlertSetting {
        connection: setting.connection,
        to: setting.recipients,
        connection_exists: setting.connection_exists,
        set_at: setting.set_at,
        set_by: setting.set_by,
    }
}

fn view_group(view: AlertGroupView) -> AlertGroup {
    let group = view.group;
    AlertGroup {
        kind: group.kind,
        flow: group.flow,
        step: group.step,
        connection: group.connection,
        total: view.total,
        waiting: view.waiting,
        waiting_since: view.waiting_since,
        due_at: view.due_at,
        example: view.example,
        failures: view.failures,
        last_at: view.last_at,
        message: view.message.map(view_message),
    }
}

fn view_message(message: AlertMessageView) -> AlertMessage {
    AlertMessage {
        key: message.key,
        count: message.count,
        state: message.state,
        note: message.note,
        intended_at: message.intended_at,
        settled_at: message.settled_at,
    }
}

impl From<AlertError> for ApiError {
    fn from(error: AlertError) -> Self {
        match error {
            AlertError::Invalid(detail) => Self::new(Code::AlertInvalid, detail),
            AlertError::NotSet => Self::plain(Code::AlertNotSet),
            AlertError::Unavailable(error) => error.into(),
        }
    }
}
