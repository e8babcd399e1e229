//! Doubts of one group, settled or retried together: a preview names them, and its digest confirms them.

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect};
use semel_api::Code;
use semel_api::types::{Effect, GroupedDoubt, GroupedDoubts, SettleGroup, Verdict};
use semel_model::Right;

use crate::answer::Answered;
use crate::console::forms::{self, Button, Offer, ask_page, section};
use crate::console::markup::{self, Markup};
use crate::console::named_runs::NamedRuns;
use crate::console::shell::{Page, Shell, Trouble, show_as, status_of};
use crate::console::visit::{Form, Visit};
use crate::console::words;
use crate::error::ApiError;

/// What can be said of all of them, as the API and as a person says it.
const VERDICTS: &[(&str, &str)] = &[
    (
        "did_not_happen",
        "They did not happen: each run performs its effect again.",
    ),
    ("happened", "They happened: each run continues after it."),
    (
        "fail",
        "It cannot be told: the runs fail here, and the doubts stay.",
    ),
];

/// The longest text of what was seen that an address carries. Doubts with a longer one are settled one by
/// one: without it, the group would be another one than the page showed.
const SEEN_BYTES_MAX: usize = 1_000;

/// What belongs together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    flow: String,
    step: String,
    connection: String,
    /// What the last attempt saw; empty for who may not see it.
    pub(super) seen: String,
}

impl Group {
    /// The group of a doubt.
    pub(super) fn of(effect: &Effect) -> Self {
        let sent = effect.sent.as_ref();
        let source = effect.source.as_ref();
        Self {
            flow: source.map(|it| it.flow.clone()).unwrap_or_default(),
            step: effect.step.clone(),
            connection: sent
                .and_then(|it| it.connection.clone())
                .unwrap_or_default(),
            seen: effect.note.clone().unwrap_or_default(),
        }
    }

    /// What it is called.
    pub(super) fn name(&self) -> String {
        let over = match self.connection.is_empty() {
            true => String::new(),
            false => format!(" over {}", self.connection),
        };
        format!("{} · {}{over}", self.flow, self.step)
    }

    /// The page that settles it; nothing where an address cannot name exactly this group.
    pub(super) fn page(&self, visit: &Visit) -> Option<String> {
        let whole = self.seen.trim() == self.seen && self.seen.len() <= SEEN_BYTES_MAX;
        let named = !self.flow.is_empty() && whole;
        named.then(|| words::address(&visit.page("/doubts/group"), &self.spelled()))
    }

    fn spelled(&self) -> [(&'static str, &str); 4] {
        [
            ("flow", &self.flow),
            ("step", &self.step),
            ("connection", &self.connection),
            ("seen", &self.seen),
        ]
    }

    fn read(get: impl Fn(&'static str) -> String) -> Self {
        Self {
            flow: get("flow"),
            step: get("step"),
            connection: get("connection"),
            seen: get("seen"),
        }
    }

    fn ask(&self, verdict: Verdict, reason: &str) -> Result<SettleGroup, ApiError> {
        let invalid = |detail: &str| ApiError::new(Code::BodyInvalid, detail);
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Ok(SettleGroup {
            flow: self
                .flow
                .parse()
                .map_err(|_| invalid("name a flow, as a link of the page of doubts does"))?,
            step: self.step.clone(),
            connection: given(&self.connection),
            seen: given(&self.seen),
            verdict,
            reason: reason.to_owned(),
            digest: None,
        })
    }
}

fn read_verdict(word: &str) -> Option<Verdict> {
    match word {
        "happened" => Some(Verdict::Happened),
        "did_not_happen" => Some(Verdict::DidNotHappen),
        "fail" => Some(Verdict::Fail),
        _ => None,
    }
}

/// `GET /console/{namespace}/doubts/group`: what would be settled. Nothing is changed.
pub(crate) async fn page(visit: Visit) -> Answered {
    let group = Group::read(|name| visit.parameter(name).to_owned());
    show_group(
        &visit,
        &group,
        visit.parameter("verdict"),
        (StatusCode::OK, None),
        "",
    )
    .await
}

/// `POST /console/{namespace}/doubts/group`.
pub(crate) async fn settle(visit: Visit, form: Form) -> Answered {
    let group = Group::read(|name| form.get(name).to_owned());
    let (word, reason) = (form.get("verdict"), form.get("reason"));
    let verdict = read_verdict(word)
        .ok_or_else(|| ApiError::new(Code::BodyInvalid, "say what you found at the destination"))?;
    let ask = SettleGroup {
        digest: form.given("digest"),
        ..group.ask(verdict, reason)?
    };
    let done: Result<GroupedDoubts, ApiError> = visit.post("/v1/doubts/settle", &form, &ask).await;
    match done {
        Ok(done) if done.settled == done.doubts.len() => {
            Ok(Redirect::to(&visit.page("/doubts")).into_response())
        }
        Ok(done) => show_rest(&visit, &group, &done).await,
        Err(error) => {
            let at = (status_of(&error), Some(error.into()));
            show_group(&visit, &group, word, at, reason).await
        }
    }
}

async fn show_group(
    visit: &Visit,
    group: &Group,
    verdict: &str,
    (status, problem): (StatusCode, Option<Trouble>),
    reason: &str,
) -> Answered {
    let mut fields: Vec<Markup> = carried(group);
    fields.push(forms::choice(
        "verdict",
        "What did you find at the destination?",
        verdict,
        VERDICTS,
    ));
    let of = (visit.page("/doubts/group"), Right::Settle);
    let choose = ask_page(visit, of, fields, "Show what would be settled");
    let mut body = vec![
        facts(group),
        section("found", "What you found", &choose.within("div", "box")),
    ];
    let chosen = read_verdict(verdict).filter(|_| visit.lacks(Right::Settle).is_none());
    let mut lead =
        "Look at the destination first. Then say what is true of all of them.".to_owned();
    if let Some(chosen) = chosen {
        let ask = group.ask(chosen, "a preview changes nothing")?;
        let preview = (Method::POST, "/v1/doubts/settle/preview");
        let plan: GroupedDoubts = visit.ask(preview, &ask).await?;
        lead = sentence(&plan);
        let named = NamedRuns::of(visit, plan.doubts.iter().map(|it| it.run).collect()).await?;
        let table = table(visit, &plan, &named);
        body.push(section("doubts", "The doubts", &table));
        let single = plan.doubts.iter().any(|it| it.code.is_some());
        if !plan.doubts.is_empty() && !single {
            let form = confirm(visit, group, verdict, &plan, reason)?;
            body.push(section("confirm", "Confirm", &form.within("div", "box")));
        }
    }
    show_as(
        status,
        &document(visit, group, verdict, problem, (&lead, body)),
    )
}

/// What could not be settled, each with why.
async fn show_rest(visit: &Visit, group: &Group, done: &GroupedDoubts) -> Answered {
    let lead = format!(
        "{} of {} are settled. The others are still in doubt.",
        done.settled,
        done.doubts.len()
    );
    let named = NamedRuns::of(visit, done.doubts.iter().map(|it| it.run).collect()).await?;
    let body = vec![
        facts(group),
        section("doubts", "The doubts", &table(visit, done, &named)),
    ];
    show_as(
        StatusCode::OK,
        &document(visit, group, "", None, (&lead, body)),
    )
}

fn document(
    visit: &Visit,
    group: &Group,
    verdict: &str,
    problem: Option<Trouble>,
    (lead, body): (&str, Vec<Markup>),
) -> Page {
    let mut command = "semel doubt settle".to_owned();
    for (option, value) in group
        .spelled()
        .iter()
        .filter(|(_, value)| !value.is_empty())
    {
        words::push_option(&mut command, option, value);
    }
    // A link can name anything as the verdict, and must not make an option of it.
    let verdict = match read_verdict(verdict).is_some() {
        true => verdict.replace('_', "-"),
        false => "happened".to_owned(),
    };
    command.push_str(&format!(" --{verdict} --reason '…'"));
    let title = format!("Doubts of {}", group.name());
    Page {
        shell: Shell::new(visit, "/doubts", &title, "/v1/doubts", &command),
        heading_markup: Markup::text(&title),
        lead_markup: Markup::text(lead),
        problem,
        body_markup: Markup::join(body),
    }
}

fn sentence(plan: &GroupedDoubts) -> String {
    let number = words::count(plan.doubts.len(), "effect is", "effects are");
    let single = plan.doubts.iter().filter(|it| it.code.is_some()).count();
    match (plan.doubts.is_empty(), single) {
        (true, _) => "Nothing of this group is in doubt.".to_owned(),
        (false, 0) if plan.more => {
            format!("{number} shown: settle these, and then the next ones. Nothing is settled yet.")
        }
        (false, 0) => format!("{number} in doubt. Nothing is settled yet."),
        (false, single) => format!(
            "{number} in doubt. They cannot be settled together: {} settled by itself.",
            words::count(single, "has to be", "have each to be")
        ),
    }
}

fn facts(group: &Group) -> Markup {
    let named = |text: &str| match text.is_empty() {
        true => Markup::default(),
        false => markup::code(text),
    };
    markup::facts(vec![
        ("Flow", named(&group.flow)),
        ("Step", named(&group.step)),
        ("Connection", named(&group.connection)),
        ("Seen", named(&group.seen)),
    ])
}

fn table(visit: &Visit, plan: &GroupedDoubts, named: &NamedRuns) -> Markup {
    if plan.doubts.is_empty() {
        return Markup::text("There is none.").within("p", "empty");
    }
    let row = |doubt: &GroupedDoubt| {
        let id = doubt.effect.to_string();
        vec![
            markup::code(&id).link(&visit.page(&format!("/effects/{id}"))),
            named.link(visit, doubt.run),
            Markup::text(&doubt.attempt.to_string()),
            doubt.code.as_deref().map(markup::code).unwrap_or_default(),
            doubt.note.as_deref().map(Markup::text).unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<Markup>> = plan.doubts.iter().map(row).collect();
    let columns = ["Effect", "Key of the run", "Attempt", "Code", "In the way"];
    markup::table("The doubts, the oldest first", &columns, &rows)
}

fn carried(group: &Group) -> Vec<Markup> {
    let values = group.spelled().into_iter();
    let values = values.filter(|(_, value)| !value.is_empty());
    values
        .map(|(name, value)| forms::carried(name, value))
        .collect()
}

fn confirm(
    visit: &Visit,
    group: &Group,
    verdict: &str,
    plan: &GroupedDoubts,
    reason: &str,
) -> Result<Markup, ApiError> {
    let label = match plan.verdict {
        Verdict::DidNotHappen => "They did not happen: perform them",
        Verdict::Happened => "They happened: continue",
        Verdict::Fail => "It cannot be told: let the runs fail",
        Verdict::Undo => "They happened: undo them",
    };
    let named = format!(
        "{}, by the digest {}. If they have changed, nothing is settled.",
        words::count(plan.doubts.len(), "effect", "effects"),
        plan.digest
    );
    let mut fields = vec![Markup::text(&named).within("p", "help")];
    fields.extend(carried(group));
    fields.push(forms::carried("verdict", verdict));
    fields.push(forms::carried("digest", &plan.digest));
    fields.push(forms::reason("settle", reason));
    let buttons = vec![Button {
        label,
        class: "",
        decision: "yes",
    }];
    let offer = Offer {
        action: visit.page("/doubts/group"),
        right: Right::Settle,
        fields,
        buttons,
    };
    forms::form(visit, offer)
}
