//! Namespaces: create, change and list, for the whole installation.
//!
//! As with tokens, what creating one returns is not kept: a repeat is shown its first token for a while.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use semel_api::Code;
use semel_api::types::{
    CreateNamespace, CreatedNamespace, Namespace, NamespaceFilter, Page, SetNamespace,
};
use semel_engine::NamespaceError;
use semel_model::{NamespaceName, Right, Rights, TokenId};
use semel_store::namespaces::{self, NamespaceChange, NamespaceView};
use semel_store::tokens::NewToken;

use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;
use crate::body::Payload;
use crate::commands::{self, Reply};
use crate::error::ApiError;
use crate::query::{Named, Params, page_size};
use crate::tokens::{self, Offer};

/// `GET /v1/namespaces`.
pub(crate) async fn list(
    State(app): State<App>,
    _caller: Caller,
    Params(filter): Params<NamespaceFilter>,
) -> Answered {
    let limit = page_size(filter.limit);
    let after = filter.cursor.unwrap_or_default();
    let found = namespaces::list(app.cell().home(), &after, limit).await?;
    let last = found.last().filter(|_| found.len() == usize::from(limit));
    answer::ok(&Page {
        next: last.map(|last| last.name.clone()),
        items: found.into_iter().map(view).collect(),
    })
}

/// `POST /v1/namespaces`.
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let (asked, _) = payload.read::<CreateNamespace>()?;
    let Offer { minted, sealed } = tokens::mint(&app, &caller, &headers)?;
    commands::carry_out(async move {
        let of_instance: Rights = [Right::Instance].into_iter().collect();
        let first = NewToken {
            id: TokenId::from_uuid(minted.id),
            name: &asked.admin,
            digest: &minted.digest,
            lifetime: tokens::lifetime_or_default(asked.lifetime),
            groups: &[],
            role: None,
            rights: Rights::ALL.without(of_instance),
            // As for a token that it makes at home. Queues of another namespace are other queues.
            networks: caller.networks.clone(),
            queues: &[],
        };
        let actor = caller.actor();
        let maker = caller.as_maker(&actor);
        let made = app
            .engine
            .create_namespace(maker, &asked.name, &first, sealed.as_deref())
            .await?;
        let is_first = made.token.again.is_none();
        tracing::info!(namespace = %asked.name, is_first, actor, "namespace created");
        let created = CreatedNamespace {
            namespace: view(made.namespace),
            admin: tokens::show(minted.text, made.token),
        };
        Ok(Reply::new(StatusCode::CREATED, &created)?.replayed_if(!is_first))
    })
    .await
}

/// `POST /v1/namespaces/{namespace}/set`.
pub(crate) async fn set(
    State(app): State<App>,
    caller: Caller,
    name: Named,
    payload: Payload,
) -> Answered {
    let name: NamespaceName = name.read(Code::NamespaceNotFound)?;
    let (asked, _) = payload.read::<SetNamespace>()?;
    commands::carry_out(async move {
        let actor = caller.actor();
        let by = caller.acting(&actor);
        let change = NamespaceChange {
            weight: asked.weight,
            backlog_max: asked.backlog_max,
            history: asked.history,
        };
        let set = app.engine.set_namespace(by, &name, change).await?;
        let (weight, backlog_max) = (set.weight, set.backlog_max);
        let history = set.history.map(|span| span.to_string());
        tracing::info!(namespace = %name, weight, backlog_max, history, actor, "namespace changed");
        Reply::new(StatusCode::OK, &view(set))
    })
    .await
}

fn view(namespace: NamespaceView) -> Namespace {
    Namespace {
        name: namespace.name,
        created_at: namespace.created_at,
        weight: namespace.weight,
        backlog_max: namespace.backlog_max,
        history: namespace.history,
    }
}

impl From<NamespaceError> for ApiError {
    fn from(error: NamespaceError) -> Self {
        match error {
            NamespaceError::Invalid(detail) => Self::new(Code::BodyInvalid, detail),
            NamespaceError::Exists(_) => Self::new(Code::NamespaceExists, error.to_string()),
            NamespaceError::MakerEnded => Self::plain(Code::Unauthorized),
            NamespaceError::Differs => Self::plain(Code::CommandMismatch),
            NamespaceError::Shown(_) => Self::new(Code::TokenShown, error.to_string()).with_hint(
                "Use the token if somebody kept it; otherwise create a namespace of another name."
                    .into(),
            ),
            NamespaceError::Missing(_) => Self::new(Code::NamespaceNotFound, error.to_string()),
            NamespaceError::Unavailable(error) => error.into(),
        }
    }
}
