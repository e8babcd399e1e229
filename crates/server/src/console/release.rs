//! Releases: what one means that another does not, what its rehearsal showed, and making it live.

mod report;

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect};
use semel_api::Code;
use semel_api::types::{
    AskRehearsal, Diagnostic, FlowDetail, FlowDiff, FlowDifference, Page as Found, Promote,
    Promoted, Rehearsal, Release,
};
use semel_model::Right;
use uuid::Uuid;

use super::forms::{self, folded, offer, section};
use super::markup::{self, Markup};
use super::shell::{Page, Shell, Trouble, show, show_as, status_of};
use super::visit::{Form, Visit};
use super::{text_diff, words};
use crate::answer::Answered;
use crate::error::ApiError;
use crate::heavy;

/// `GET /console/{namespace}/flows/{flow}/diff/{range}`: a range is `r3..r4` or `r3..draft`.
pub(super) async fn diff(visit: Visit) -> Answered {
    let missing = || ApiError::plain(Code::ReleaseNotFound);
    let (before, after) = visit.part("range").split_once("..").ok_or_else(missing)?;
    let number = |text: &str| text.strip_prefix('r')?.parse::<i32>().ok();
    let old = number(before).ok_or_else(missing)?;
    let new = number(after);
    if new.is_none() && after != "draft" {
        return Err(missing());
    }
    let found: FlowDetail = visit.get(&route(&visit)).await?;
    let text = |number: i32| {
        let mut releases = found.releases.iter();
        let release = releases.find(|release| release.number == number);
        release.ok_or_else(missing)
    };
    let (was, source) = match new {
        Some(new) => (text(old)?, text(new)?.source.clone()),
        None => (text(old)?, found.draft.clone().ok_or_else(missing)?),
    };
    let asked = [
        ("before", old.to_string()),
        ("after", new.map(|new| new.to_string()).unwrap_or_default()),
    ];
    let asked = asked
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let json = words::address(&format!("{}/diff", route(&visit)), &asked);
    let compared: FlowDiff = visit.get(&json).await?;
    let name = words::shell_word(&found.flow.name);
    let command = match new {
        Some(new) => format!("semel flow diff {name} r{old} r{new}"),
        None => format!("semel flow diff {name} r{old}"),
    };
    let title = format!("{}: {before} to {after}", found.flow.name);
    let mut body = vec![back(&visit, &found)];
    body.push(section(
        "meaning",
        "What means something else",
        &meaning(&compared.differences),
    ));
    let texts = (was.source.clone(), source.clone());
    let namespace_id = visit.caller().namespace_id;
    let comparing = move || text_diff::diff(&texts.0, &texts.1);
    let compared_lines = heavy::compute(namespace_id, comparing).await?;
    let text = match compared_lines {
        same if same.is_empty() => Markup::text("The texts are equal.").within("p", "empty"),
        differs => differs,
    };
    body.push(section("text", "What is written differently", &text));
    if !compared.diagnostics.is_empty() {
        let rows: Vec<Vec<Markup>> = compared.diagnostics.iter().map(warning).collect();
        let columns = ["Line", "Rule", "What", "What to do"];
        let table = markup::table("What the check says", &columns, &rows);
        body.push(section("check", "What the check says", &table));
    }
    if let Some(new) = new {
        let offers = promoting(&visit, &found, text_of(&found, new)?, "")?;
        body.push(section("acts", "Acts", &offers));
    }
    show(&Page {
        shell: Shell::new(&visit, "/flows", &title, &json, &command),
        heading_markup: Markup::text(&title),
        lead_markup: Markup::text(&lead(&compared.differences)),
        problem: None,
        body_markup: Markup::join(body),
    })
}

fn route(visit: &Visit) -> String {
    format!("/v1/flows/{}", words::encoded(visit.part("flow")))
}

fn back(visit: &Visit, found: &FlowDetail) -> Markup {
    let href = visit.page(&format!("/flows/{}", words::encoded(&found.flow.name)));
    let text = format!("The flow {}", found.flow.name);
    Markup::text(&text).link(&href).within("p", "presets")
}

fn text_of(found: &FlowDetail, number: i32) -> Result<&Release, ApiError> {
    let mut releases = found.releases.iter();
    let release = releases.find(|release| release.number == number);
    release.ok_or_else(|| ApiError::plain(Code::ReleaseNotFound))
}

fn lead(differences: &[FlowDifference]) -> String {
    let serious = differences.iter().filter(|it| it.means.is_some()).count();
    match (differences.len(), serious) {
        (0, _) => "Both mean the same.".to_owned(),
        (all, 0) => format!(
            "{}; none of them changes what a repeat or a replay does.",
            words::count(all, "difference", "differences")
        ),
        (all, some) => format!(
            "{}; {some} of them {} what a repeat or a replay does.",
            words::count(all, "difference", "differences"),
            if some == 1 { "changes" } else { "change" }
        ),
    }
}

fn meaning(differences: &[FlowDifference]) -> Markup {
    if differences.is_empty() {
        return Markup::text("Effects, keys, guards, retries and approvals are the same.")
            .within("p", "empty");
    }
    let row = |found: &FlowDifference| {
        let kind = found.kind.replace('_', " ");
        let code = |text: &Option<String>| text.as_deref().map(markup::code).unwrap_or_default();
        vec![
            match found.means {
                Some(_) => markup::other_state("doubt", "▲", &kind),
                None => Markup::text(&kind),
            },
            code(&found.step),
            code(&found.before),
            code(&found.after),
            found.means.as_deref().map(Markup::text).unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<Markup>> = differences.iter().map(row).collect();
    let columns = ["What", "Step", "Before", "After", "What follows"];
    markup::table("What means something else", &columns, &rows)
}

fn warning(found: &Diagnostic) -> Vec<Markup> {
    vec![
        Markup::text(&found.line.to_string()),
        markup::code(&found.code),
        Markup::text(&found.message),
        Markup::text(&found.help),
    ]
}

/// `GET /console/{namespace}/flows/{flow}/releases/{release}/rehearsal`.
pub(super) async fn rehearsal(visit: Visit) -> Answered {
    show_rehearsal(&visit, StatusCode::OK, None, "").await
}

/// `POST /console/{namespace}/flows/{flow}/releases/{release}/rehearse`.
pub(super) async fn rehearse(visit: Visit, form: Form) -> Answered {
    let done = ask_for(&visit, &form).await;
    finish(&visit, done, "").await
}

async fn ask_for(visit: &Visit, form: &Form) -> Result<(), ApiError> {
    let found: FlowDetail = visit.get(&route(visit)).await?;
    let release = text_of(&found, number(visit)?)?;
    // The form's key is the rehearsal's name, so that a second click asks for the same one.
    let key = form.get("key").trim_start_matches("console-");
    let id = Uuid::try_parse(key);
    let id = id.map_err(|_| ApiError::new(Code::BodyInvalid, "open the page again"))?;
    let ask = AskRehearsal {
        source: release.source.clone(),
        file: found.flow.name.clone(),
        example: None,
        fault: None,
        seed: 0,
    };
    let address = format!("/v1/rehearsals/{id}");
    let asked: Result<Rehearsal, ApiError> = visit.ask((Method::PUT, &address), &ask).await;
    asked.map(drop)
}

/// `POST /console/{namespace}/flows/{flow}/releases/{release}/promote`.
pub(super) async fn promote(visit: Visit, form: Form) -> Answered {
    let release = number(&visit)?;
    let promote = Promote {
        release,
        override_reason: form.given("reason"),
    };
    let address = format!("{}/promote", route(&visit));
    let done: Result<Promoted, ApiError> = visit.post(&address, &form, &promote).await;
    match done {
        Ok(_) => {
            let flow = words::encoded(visit.part("flow"));
            Ok(Redirect::to(&visit.page(&format!("/flows/{flow}"))).into_response())
        }
        Err(error) => finish(&visit, Err(error), form.get("reason")).await,
    }
}

fn number(visit: &Visit) -> Result<i32, ApiError> {
    let number = visit.part("release").parse();
    number.map_err(|_| ApiError::plain(Code::ReleaseNotFound))
}

async fn finish(visit: &Visit, done: Result<(), ApiError>, reason: &str) -> Answered {
    match done {
        Ok(()) => Ok(Redirect::to(&visit.page(&rehearsal_path(visit))).into_response()),
        Err(error) => {
            let status = status_of(&error);
            show_rehearsal(visit, status, Some(error.into()), reason).await
        }
    }
}

fn rehearsal_path(visit: &Visit) -> String {
    let (flow, release) = (visit.part("flow"), visit.part("release"));
    format!(
        "/flows/{}/releases/{}/rehearsal",
        words::encoded(flow),
        words::encoded(release)
    )
}

async fn show_rehearsal(
    visit: &Visit,
    status: StatusCode,
    problem: Option<Trouble>,
    reason: &str,
) -> Answered {
    let number = number(visit)?;
    let found: FlowDetail = visit.get(&route(visit)).await?;
    let release = text_of(&found, number)?;
    let list = format!("{}/rehearsals?release={number}", route(visit));
    let mut known: Found<Rehearsal> = visit.get(&list).await?;
    // Only a whole one proves anything.
    known.items.retain(|rehearsal| rehearsal.whole);
    let (json, latest) = match known.items.first() {
        Some(latest) => {
            let json = format!("/v1/rehearsals/{}", latest.id);
            let latest: Rehearsal = visit.get(&json).await?;
            (json, Some(latest))
        }
        None => (list, None),
    };
    let name = words::shell_word(&found.flow.name);
    let command = match found.flow.latest == Some(number) && latest.is_some() {
        true => format!("semel rehearse {name}"),
        false => format!("semel flow show {name}"),
    };
    let title = format!("{} r{number}: rehearsal", found.flow.name);
    let mut body = vec![back(visit, &found)];
    if let Some(latest) = latest.clone() {
        let namespace_id = visit.caller().namespace_id;
        body.push(heavy::compute(namespace_id, move || report::show(&latest)).await?);
    }
    body.push(section("acts", "Acts", &{
        let again = latest.as_ref().is_some_and(|latest| !latest.is_over());
        let mut offers = Vec::new();
        if !again {
            let base = format!("/flows/{}/releases/{number}", words::encoded(&found.flow.name));
            let of = (visit.page(&format!("{base}/rehearse")), Right::Write);
            let help = Markup::text("Plays every example against duplicates, crashes and lost answers. Nothing is sent.");
            let fields = vec![help.within("p", "help")];
            let form = offer(visit, of, fields, ("Rehearse this release", ""))?;
            offers.push(folded("Rehearse", latest.is_none(), &form));
        }
        offers.push(promoting(visit, &found, release, reason)?);
        Markup::join(offers).within("div", "acts")
    }));
    show_as(
        status,
        &Page {
            shell: Shell::new(visit, "/flows", &title, &json, &command),
            heading_markup: Markup::text(&title),
            lead_markup: report::lead(visit, release, latest.as_ref()),
            problem,
            body_markup: Markup::join(body),
        },
    )
}

/// Making a release live: as it is, or although no rehearsal has proven it.
fn promoting(
    visit: &Visit,
    found: &FlowDetail,
    release: &Release,
    reason: &str,
) -> Result<Markup, ApiError> {
    let number = release.number;
    if found.flow.live == Some(number) {
        return Ok(Markup::text("This release is live.").within("p", "help"));
    }
    let base = format!(
        "/flows/{}/releases/{number}",
        words::encoded(&found.flow.name)
    );
    let action = visit.page(&format!("{base}/promote"));
    let back = found.flow.live.is_some_and(|live| live > number);
    let (summary, label) = match back {
        true => ("Roll back", "Roll back to this release"),
        false => ("Promote", "Promote this release"),
    };
    let help = "New runs start on it. Runs that are in flight stay on their release.";
    let help = Markup::text(help).within("p", "help");
    let promote = (action.clone(), Right::Promote);
    let form = offer(visit, promote, vec![help], (label, ""))?;
    let mut offers = vec![folded(summary, false, &form)];
    if release.proof.as_deref() != Some("proven") {
        let fields = vec![forms::reason("override", reason)];
        let form = offer(visit, (action, Right::Override), fields, (label, "danger"))?;
        let summary = "Although no rehearsal has proven it";
        offers.push(folded(summary, !reason.is_empty(), &form));
    }
    Ok(Markup::join(offers).within("div", "acts"))
}
