//! Who may enter through an identity provider: the roles of groups, and people.

use axum::extract::State;
use axum::http::StatusCode;
use semel_api::Code;
use semel_api::types::{
    ChangePerson, GroupRole, MapGroup, Page, Person, PersonFilter, RevokedPerson, UnmapGroup,
};
use semel_engine::MemberError;
use semel_model::TokenId;
use semel_store::group_roles::{self, GroupRoleView};
use semel_store::people::views::{self as people, PersonView};

use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;
use crate::body::Payload;
use crate::commands::{self, Reply};
use crate::cursor;
use crate::error::ApiError;
use crate::query::{Named, Params, page_size};
use crate::tokens;

/// `GET /v1/group-roles`. A namespace maps few enough groups for one page.
pub(crate) async fn list_groups(State(app): State<App>, caller: Caller) -> Answered {
    let found = group_roles::list(app.cell().home(), caller.namespace_id).await?;
    answer::ok(&Page {
        items: found.into_iter().map(view_group).collect(),
        next: None,
    })
}

/// `POST /v1/group-roles/map`.
pub(crate) async fn map(State(app): State<App>, caller: Caller, payload: Payload) -> Answered {
    let (asked, _) = payload.read::<MapGroup>()?;
    commands::carry_out(async move {
        let actor = caller.actor();
        let mapper = caller.as_maker(&actor);
        let mapped = app
            .engine
            .map_group(mapper, &asked.group, (asked.role, asked.rights))
            .await;
        let mapped = mapped.map_err(|error| refuse(error, &caller))?;
        app.sign_ins.forget_people(caller.namespace_id);
        tracing::info!(group = mapped.group, role = %mapped.role, actor, "group mapped");
        Reply::new(StatusCode::OK, &view_group(mapped))
    })
    .await
}

/// `POST /v1/group-roles/unmap`.
pub(crate) async fn unmap(State(app): State<App>, caller: Caller, payload: Payload) -> Answered {
    let (asked, _) = payload.read::<UnmapGroup>()?;
    commands::carry_out(async move {
        let actor = caller.actor();
        let by = caller.acting(&actor);
        let unmapped = app.engine.unmap_group(by, &asked.group).await;
        let unmapped = unmapped.map_err(|error| refuse(error, &caller))?;
        app.sign_ins.forget_people(caller.namespace_id);
        tracing::info!(group = unmapped.group, actor, "group unmapped");
        Reply::new(StatusCode::OK, &view_group(unmapped))
    })
    .await
}

/// `GET /v1/people`.
pub(crate) async fn list_people(
    State(app): State<App>,
    caller: Caller,
    Params(filter): Params<PersonFilter>,
) -> Answered {
    let limit = page_size(filter.limit);
    let before = cursor::read(filter.cursor.as_deref())?;
    let before = before.map(|(at, id)| (at, TokenId::from_uuid(id)));
    let found = people::list(app.cell().home(), caller.namespace_id, before, limit).await?;
    let last = found.last().filter(|_| found.len() == usize::from(limit));
    answer::ok(&Page {
        next: last.map(|last| cursor::write(last.created_at, last.id.as_uuid())),
        items: found.into_iter().map(view_person).collect(),
    })
}

/// `POST /v1/people/{person}/revoke`.
pub(crate) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    person: Named,
    payload: Payload,
) -> Answered {
    let id: TokenId = person.read(Code::PersonNotFound)?;
    let (ChangePerson { reason }, _) = payload.read()?;
    commands::carry_out(async move {
        let actor = caller.actor();
        let by = caller.acting(&actor);
        let revoked = app.engine.revoke_person(by, id, reason.as_deref()).await;
        let (person, made) = revoked.map_err(|error| refuse(error, &caller))?;
        app.sign_ins.forget_token(id);
        for token in &made {
            tokens::forget(&app, token.id);
        }
        let made_count = made.len() as u64;
        tracing::info!(person.id = %id, made = made_count, actor, "person revoked");
        let revoked = RevokedPerson {
            person: view_person(person),
            made: tokens::view_newest(made),
            made_count,
        };
        Reply::new(StatusCode::OK, &revoked)
    })
    .await
}

/// `POST /v1/people/{person}/restore`.
pub(crate) async fn restore(
    State(app): State<App>,
    caller: Caller,
    person: Named,
    payload: Payload,
) -> Answered {
    let id: TokenId = person.read(Code::PersonNotFound)?;
    let (ChangePerson { reason }, _) = payload.read()?;
    commands::carry_out(async move {
        let actor = caller.actor();
        let by = caller.acting(&actor);
        let restored = app.engine.restore_person(by, id, reason.as_deref()).await;
        let restored = restored.map_err(|error| refuse(error, &caller))?;
        tracing::info!(person.id = %id, actor, "person restored");
        Reply::new(StatusCode::OK, &view_person(restored))
    })
    .await
}

fn view_group(group: GroupRoleView) -> GroupRole {
    GroupRole {
        group: group.group,
        role: group.role,
        rights: group.rights,
        changed_at: group.changed_at,
    }
}

fn view_person(person: PersonView) -> Person {
    Person {
        id: person.id,
        name: person.name,
        issuer: person.issuer,
        subject: person.subject,
        role: person.role,
        rights: person.rights,
        groups: person.groups,
        created_at: person.created_at,
        named_at: person.last_used_at,
        revoked_at: person.revoked_at,
    }
}

fn refuse(error: MemberError, caller: &Caller) -> ApiError {
    match error {
        MemberError::Invalid(detail) => ApiError::new(Code::BodyInvalid, detail),
        MemberError::Refused | MemberError::Unfit { .. } => {
            ApiError::new(Code::BodyInvalid, error.to_string())
        }
        MemberError::Beyond(rights) => {
            let who = caller.in_words();
            let detail = format!("{who} cannot give what it does not have: {rights}");
            ApiError::new(Code::RightMissing, detail).with_hint(
                "Choose another role, or map it with a token that has these rights.".into(),
            )
        }
        MemberError::Limited(to) => {
            let who = caller.in_words();
            let detail = format!("{who} has a list of {to}, and people are not limited to it");
            let hint = format!("Map the group with a token that has no list of {to}.");
            ApiError::new(Code::RightMissing, detail).with_hint(hint)
        }
        MemberError::NotMapped => ApiError::plain(Code::GroupNotMapped),
        MemberError::Unknown => ApiError::plain(Code::PersonNotFound),
        MemberError::Reason(error) => error.into(),
        MemberError::Unavailable(error) => error.into(),
    }
}
