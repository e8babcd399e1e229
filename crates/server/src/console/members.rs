//! People who sign in through the identity provider, and the roles that their groups have.

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect};
use semel_api::Code;
use semel_api::types::{ChangePerson, GroupRole, MapGroup, Page as Found, Person, UnmapGroup};
use semel_model::{Right, Rights, Role};

use super::forms::{self, folded, offer, section};
use super::markup::{self, Markup};
use super::shell::{Page, Shell, Trouble, keep, next_page, show_as, show_list, status_of};
use super::tokens::read_rights;
use super::visit::{Form, Visit};
use super::{empty, words};
use crate::answer::Answered;
use crate::error::ApiError;

/// `GET /console/{namespace}/people`.
pub(super) async fn page(visit: Visit) -> Answered {
    show_people(&visit, (StatusCode::OK, None), None).await
}

/// `POST /console/{namespace}/people/groups`: gives a group a role, or takes it away.
pub(super) async fn change_group(visit: Visit, form: Form) -> Answered {
    let group = form.get("group").to_owned();
    let done: Result<GroupRole, ApiError> = match form.get("decision") {
        "unmap" => {
            let ask = (Method::POST, "/v1/group-roles/unmap");
            visit.ask(ask, &UnmapGroup { group }).await
        }
        _ => match read(&form, group) {
            Ok(map) => {
                let ask = (Method::POST, "/v1/group-roles/map");
                visit.ask(ask, &map).await
            }
            Err(error) => Err(error),
        },
    };
    finish(&visit, &form, done.map(drop)).await
}

/// `POST /console/{namespace}/people/{person}`: keeps a person out, or lets them in again.
pub(super) async fn change_person(visit: Visit, form: Form) -> Answered {
    let verb = match form.get("decision") {
        "restore" => "restore",
        _ => "revoke",
    };
    let id = words::encoded(visit.part("person"));
    let address = format!("/v1/people/{id}/{verb}");
    let ask = ChangePerson {
        reason: form.given("reason"),
    };
    let done: Result<Person, ApiError> = visit.ask((Method::POST, &address), &ask).await;
    finish(&visit, &form, done.map(drop)).await
}

async fn finish(visit: &Visit, form: &Form, done: Result<(), ApiError>) -> Answered {
    match done {
        Ok(()) => Ok(Redirect::to(&visit.page("/people")).into_response()),
        Err(error) => {
            let at = (status_of(&error), Some(error.into()));
            show_people(visit, at, Some(form)).await
        }
    }
}

fn read(form: &Form, group: String) -> Result<MapGroup, ApiError> {
    let invalid = |detail: &str| ApiError::new(Code::BodyInvalid, detail);
    let role = form.get("role").parse();
    let role: Role = role.map_err(|_| invalid("choose a role"))?;
    let rights = read_rights(form)?;
    Ok(MapGroup {
        group,
        role,
        rights: rights.into_iter().collect::<Rights>(),
    })
}

async fn show_people(
    visit: &Visit,
    (status, problem): (StatusCode, Option<Trouble>),
    typed: Option<&Form>,
) -> Answered {
    let cursor = visit.parameter("cursor");
    let json = words::address("/v1/people", &[("cursor", cursor)]);
    let command = format!("semel api GET {}", words::shell_word(&json));
    let shell = Shell::new(visit, "/settings", "People and groups", &json, &command);
    if let Some(missing) = visit.lacks(Right::Admin) {
        let lead = Markup::fixed("Who may use this namespace is for who manages it.");
        let missing = Markup::text(&missing).within("p", "empty");
        return show_list(shell, lead, vec![missing]);
    }
    let tokens = Markup::text("Tokens").link(&visit.page("/tokens"));
    let links = tokens.within("p", "presets");
    let people: Found<Person> = match visit.get(&json).await {
        Ok(found) => found,
        Err(error) => return keep(shell, error, vec![links]),
    };
    let groups: Found<GroupRole> = visit.get("/v1/group-roles").await?;
    let here = visit.page("/people");
    let next = next_page("The next page", &here, &[], people.next.as_deref());
    let list = Markup::join(
        [people_table(visit, &people.items)?]
            .into_iter()
            .chain(next),
    );
    let body = [
        links,
        section("groups", "Groups", &group_table(visit, &groups.items)?),
        section("map", "Give a group a role", &map_form(visit, typed)?),
        section("people", "People", &list),
    ];
    show_as(
        status,
        &Page {
            shell,
            heading_markup: Markup::fixed("People and groups"),
            lead_markup: Markup::fixed(
                "People enter by the groups that the identity provider names. Without a group that has a role there is no entry.",
            ),
            problem,
            body_markup: Markup::join(body),
        },
    )
}

fn group_table(visit: &Visit, groups: &[GroupRole]) -> Result<Markup, ApiError> {
    if groups.is_empty() {
        return Ok(empty::teach(
            "No group has a role. The form below gives one, and so does this command.",
            "semel member map GROUP --role ROLE",
            "docs/access.md",
        ));
    }
    let mut rows = Vec::new();
    for one in groups {
        let offer = forms::Offer {
            action: visit.page("/people/groups"),
            right: Right::Admin,
            fields: vec![forms::carried("group", &one.group)],
            buttons: vec![forms::Button {
                label: "Take the role away",
                class: "danger",
                decision: "unmap",
            }],
        };
        let form = forms::form(visit, offer)?;
        rows.push(vec![
            markup::code(&one.group),
            Markup::text(one.role.as_str()),
            Markup::text(&one.rights.to_string()),
            visit.time(one.changed_at),
            folded("Take the role away", false, &form),
        ]);
    }
    let columns = ["Group", "Role", "Rights besides", "Since", "Act"];
    Ok(markup::table("Groups with a role", &columns, &rows))
}

fn map_form(visit: &Visit, typed: Option<&Form>) -> Result<Markup, ApiError> {
    let was = |name: &str| typed.map_or("", |form| form.get(name));
    let roles: Vec<(&str, &str)> = Role::ALL
        .iter()
        .map(|role| (role.as_str(), role.as_str()))
        .collect();
    let chosen = match was("role") {
        "" => "viewer",
        role => role,
    };
    let fields = vec![
        forms::line(
            "group",
            "Group",
            was("group"),
            "Letter by letter as the identity provider calls it.",
        ),
        forms::select("role", "Role", chosen, &roles),
        forms::line(
            "rights",
            "Rights besides (optional)",
            was("rights"),
            "Such as settle.",
        ),
    ];
    let of = (visit.page("/people/groups"), Right::Admin);
    let form = offer(visit, of, fields, ("Give the role", ""))?;
    Ok(form.within("div", "box"))
}

fn people_table(visit: &Visit, people: &[Person]) -> Result<Markup, ApiError> {
    if people.is_empty() {
        let nothing = "Nobody has signed in through an identity provider.";
        return Ok(Markup::text(nothing).within("p", "empty"));
    }
    let mut rows = Vec::new();
    for one in people {
        let id = one.id.to_string();
        let (label, decision): (&'static str, &'static str) = match one.revoked_at {
            Some(_) => ("Let in again", "restore"),
            None => ("Keep out", "revoke"),
        };
        let class = if one.revoked_at.is_some() {
            ""
        } else {
            "danger"
        };
        let why = forms::line_of(
            (&format!("why-{id}"), "reason"),
            "Reason",
            "",
            "For the audit record.",
        );
        let offer = forms::Offer {
            action: visit.page(&format!("/people/{id}")),
            right: Right::Admin,
            fields: vec![why],
            buttons: vec![forms::Button {
                label,
                class,
                decision,
            }],
        };
        let form = forms::form(visit, offer)?;
        rows.push(vec![
            match one.revoked_at {
                Some(_) => markup::other_state("bad", "■", "kept out"),
                None => markup::other_state("good", "●", "let in"),
            },
            Markup::text(&one.name),
            markup::code(&one.subject),
            Markup::text(one.role.map_or("-", Role::as_str)),
            Markup::text(&one.groups.join(", ")),
            one.named_at.map(|at| visit.time(at)).unwrap_or_default(),
            folded(label, false, &form),
        ]);
    }
    let columns = [
        "State",
        "Name",
        "Subject",
        "Role",
        "Groups",
        "Groups named",
        "Act",
    ];
    Ok(markup::table("People, the newest first", &columns, &rows))
}
