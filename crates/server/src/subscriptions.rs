//! Subscriptions: list, show, create, replace, delete; their deliveries, and retrying one.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use semel_api::Code;
use semel_api::types::{
    Change, DeletedSubscription, Delivery, DeliveryFilter, DeliveryState, KeptSubscription, Page,
    PutSubscription, RetriedDelivery, Subscription,
};
use semel_engine::{ConnectionChange, RetryError, SubscriptionError};
use semel_model::{EffectId, Label};
use semel_store::subscriptions;
use semel_store::webhook_deliveries::{self, DeliveryView};
use serde_json::json;

use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;
use crate::body::Payload;
use crate::commands::{self, Command, Reply};
use crate::cursor;
use crate::error::ApiError;
use crate::payloads;
use crate::query::{Named, Pair, Params, page_size};

/// `GET /v1/subscriptions`.
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Answered {
    let rows = subscriptions::list(app.cell().home(), caller.namespace_id).await?;
    answer::ok(&Page {
        items: rows.into_iter().map(view).collect(),
        next: None,
    })
}

/// `GET /v1/subscriptions/{name}`.
pub(crate) async fn show(State(app): State<App>, caller: Caller, name: Named) -> Answered {
    let name: Label = name.read(Code::SubscriptionNotFound)?;
    answer::ok(&view(get(&app, &caller, &name).await?))
}

/// `PUT /v1/subscriptions/{name}`.
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
        .map_err(|error| ApiError::new(Code::SubscriptionInvalid, format!("{error}")))?;
    let (put, body): (PutSubscription, _) = payload.read()?;
    let command = Command {
        verb: "subscription put",
        subject: name.as_str(),
        body: &body,
        headers: &headers,
    };
    let (engine, asking, name) = (app.engine.clone(), caller.clone(), name.clone());
    commands::once(app, &caller, command, async move {
        let actor = asking.actor();
        let by = asking.acting(&actor);
        let (subject, event, to) = (name.as_str(), &put.event, &put.connection);
        let kept = match put.replace {
            true => engine.replace_subscription(by, subject, event, to).await?,
            false => engine.keep_subscription(by, subject, event, to).await?,
        };
        tracing::info!(subscription = %name, actor, "subscription stored");
        let (status, change) = match kept {
            ConnectionChange::Created => (StatusCode::CREATED, Change::Created),
            ConnectionChange::Replaced => (StatusCode::OK, Change::Replaced),
            ConnectionChange::Unchanged => (StatusCode::OK, Change::Unchanged),
        };
        let name = name.to_string();
        Reply::new(status, &KeptSubscription { name, change })
    })
    .await
}

/// `DELETE /v1/subscriptions/{name}`.
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    name: Named,
    headers: HeaderMap,
) -> Answered {
    let name: Label = name.read(Code::SubscriptionNotFound)?;
    let command = Command {
        verb: "subscription delete",
        subject: name.as_str(),
        body: &json!({}),
        headers: &headers,
    };
    let (engine, asking, name) = (app.engine.clone(), caller.clone(), name.clone());
    commands::once(app, &caller, command, async move {
        let actor = asking.actor();
        let by = asking.acting(&actor);
        let failed = engine.delete_subscription(by, name.as_str()).await?;
        tracing::info!(subscription = %name, actor, failed, "subscription deleted");
        let name = name.to_string();
        Reply::new(StatusCode::OK, &DeletedSubscription { name, failed })
    })
    .await
}

/// `GET /v1/subscriptions/{name}/deliveries`.
pub(crate) async fn list_deliveries(
    State(app): State<App>,
    caller: Caller,
    name: Named,
    Params(filter): Params<DeliveryFilter>,
) -> Answered {
    let name: Label = name.read(Code::SubscriptionNotFound)?;
    let subscription = get(&app, &caller, &name).await?;
    let limit = page_size(filter.limit);
    let state = filter.state.map(DeliveryState::as_str);
    let before = cursor::read(filter.cursor.as_deref())?;
    let before = before.map(|(at, id)| (at, EffectId::from_uuid(id)));
    let (cell, namespace_id) = (app.cell(), caller.namespace_id);
    let name = &subscription.name;
    let found =
        webhook_deliveries::list(cell.every(), namespace_id, name, state, before, limit).await?;
    let last = found.last().filter(|_| found.len() == usize::from(limit));
    let next = last.map(|last| cursor::write(last.emitted_at, last.event.as_uuid()));
    let items = found
        .into_iter()
        .map(view_delivery)
        .collect::<Result<_, _>>();
    let page = Page {
        items: items?,
        next,
    };
    payloads::ok(&caller, page)
}

/// `POST /v1/subscriptions/{name}/deliveries/{event}/retry`.
pub(crate) async fn retry(
    State(app): State<App>,
    caller: Caller,
    pair: Pair,
    headers: HeaderMap,
) -> Answered {
    let name: Label = pair.0.read(Code::SubscriptionNotFound)?;
    let event: EffectId = pair.1.read(Code::DeliveryNotFound)?;
    let subject = format!("{name} {event}");
    let command = Command {
        verb: "delivery retry",
        subject: &subject,
        body: &json!({}),
        headers: &headers,
    };
    let (engine, asking) = (app.engine.clone(), caller.clone());
    commands::once(app, &caller, command, async move {
        let actor = asking.actor();
        let by = asking.acting(&actor);
        engine.retry_delivery(by, name.as_str(), event).await?;
        tracing::info!(subscription = %name, event.id = %event, actor, "delivery due again");
        let done = RetriedDelivery {
            subscription: name.to_string(),
            id: event,
        };
        Reply::new(StatusCode::OK, &done)
    })
    .await
}

async fn get(
    app: &App,
    caller: &Caller,
    name: &Label,
) -> Result<subscriptions::Subscription, ApiError> {
    let found = subscriptions::find(app.cell().home(), caller.namespace_id, name.as_str()).await?;
    found.ok_or_else(|| ApiError::plain(Code::SubscriptionNotFound))
}

fn view(row: subscriptions::Subscription) -> Subscription {
    Subscription {
        name: row.name,
        event: row.event,
        connection: row.connection,
        due: row.due,
        created_at: row.created_at,
    }
}

/// Where a delivery stands, by the word that is stored.
pub(crate) fn read_state(word: &str) -> Result<DeliveryState, ApiError> {
    match word {
        "due" => Ok(DeliveryState::Due),
        "delivered" => Ok(DeliveryState::Delivered),
        "failed" => Ok(DeliveryState::Failed),
        _ => Err(ApiError::internal("a delivery in a state of its own")),
    }
}

fn view_delivery(row: DeliveryView) -> Result<Delivery, ApiError> {
    let state = read_state(&row.state)?;
    Ok(Delivery {
        id: row.event,
        event: row.name,
        connection: row.connection,
        state,
        attempt: row.attempt,
        emitted_at: row.emitted_at,
        due_at: Some(row.due_at).filter(|_| state == DeliveryState::Due),
        settled_at: row.settled_at,
        note: row.note,
    })
}

impl From<SubscriptionError> for ApiError {
    fn from(error: SubscriptionError) -> Self {
        match error {
            SubscriptionError::Invalid(detail) => Self::new(Code::SubscriptionInvalid, detail),
            SubscriptionError::Unknown => Self::plain(Code::SubscriptionNotFound),
            SubscriptionError::Differs => Self::plain(Code::SubscriptionDiffers),
            SubscriptionError::Unavailable(error) => error.into(),
        }
    }
}

impl From<RetryError> for ApiError {
    fn from(error: RetryError) -> Self {
        match error {
            RetryError::UnknownSubscription => Self::plain(Code::SubscriptionNotFound),
            RetryError::Unknown => Self::plain(Code::DeliveryNotFound),
            RetryError::NotFailed { state } => {
                Self::new(Code::DeliveryNotFailed, format!("the delivery is {state}"))
            }
            RetryError::Erased => Self::plain(Code::DeliveryErased),
            RetryError::Unavailable(error) => error.into(),
        }
    }
}
