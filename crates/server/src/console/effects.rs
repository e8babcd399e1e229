//! Effects: the ledger, and what pages say of each entry.

use jiff::Timestamp;
use semel_api::types::{Act, Attended, Effect, Page as Found, Sent};
use semel_model::Right;

use super::markup::{self, Markup, Whole};
use super::named_runs::NamedRuns;
use super::shell::{Page, Shell, keep, next_page, show};
use super::visit::Visit;
use super::{empty, forms, runs, words};
use crate::answer::Answered;
use crate::events::EMIT;

/// How many effects a page has.
const PAGE: &str = "50";

/// Lists that are often asked for.
const PRESETS: &[(&str, &str)] = &[
    ("All", ""),
    ("Done", "done"),
    ("In doubt", "in_doubt"),
    ("Failed", "failed"),
];

/// What the list is narrowed by beside its state, as the API names it.
const NARROWED: [&str; 5] = ["flow", "step", "since", "until", "external_id"];

/// `GET /console/{namespace}/effects`.
pub(super) async fn page(visit: Visit) -> Answered {
    let state = visit.parameter("state");
    let typed = NARROWED.map(|name| (name, visit.parameter(name)));
    let spelled = runs::spell(&visit, &typed);
    let mut asked = vec![("state", state)];
    asked.extend(spelled.iter().map(|(name, value)| (*name, value.as_str())));
    asked.extend([("limit", PAGE), ("cursor", visit.parameter("cursor"))]);
    let json = words::address("/v1/effects", &asked);
    let mut command = "semel effect list".to_owned();
    for (name, value) in asked.iter().filter(|(_, value)| !value.is_empty()) {
        let option = name.replace('_', "-");
        words::push_option(&mut command, &option, value);
    }
    let links = PRESETS.iter().map(|(name, preset)| {
        let mut kept = typed.to_vec();
        kept.push(("state", preset));
        let href = words::address(&visit.page("/effects"), &kept);
        match *preset == state {
            true => Markup::text(name).within("strong", "preset"),
            false => Markup::text(name).link(&href),
        }
    });
    let presets = Markup::join(links).within("p", "presets");
    let shell = Shell::new(&visit, "/effects", "Effects", &json, &command);
    let found: Found<Effect> = match visit.get(&json).await {
        Ok(found) => found,
        Err(error) => return keep(shell, error, vec![presets, narrow(&visit, &typed)]),
    };
    let is_narrowed = !state.is_empty() || typed.iter().any(|(_, value)| !value.is_empty());
    let mut body = vec![presets, narrow(&visit, &typed)];
    body.push(match found.items.is_empty() {
        true => nothing(is_narrowed, found.next.is_some()),
        false => {
            let named =
                NamedRuns::of(&visit, found.items.iter().map(|it| it.run).collect()).await?;
            let by_key = |effect: &Effect| named.link(&visit, effect.run);
            let caption = "Effects, the newest first";
            table_by(&visit, caption, &found.items, ("Key of the run", &by_key))
        }
    });
    let mut filter = typed.to_vec();
    filter.push(("state", state));
    let here = visit.page("/effects");
    body.extend(next_page(
        "Older effects",
        &here,
        &filter,
        found.next.as_deref(),
    ));
    show(&Page {
        shell,
        heading_markup: Markup::fixed("Effects"),
        lead_markup: Markup::fixed(
            "Every change to the outside world, with what makes it safe to repeat.",
        ),
        problem: None,
        body_markup: Markup::join(body),
    })
}

/// What the list is narrowed by, as a form that asks for the page.
fn narrow(visit: &Visit, typed: &[(&'static str, &str)]) -> Markup {
    let labels = [
        ("Flow", "Such as orders."),
        ("Step", "The path of a step, such as charge."),
        ("Since", "A time, a day (UTC), or how long ago: 24h."),
        ("Until", "A time, a day (UTC), or how long ago."),
        ("External id", "What the destination calls it; alone."),
    ];
    let fields = typed.iter().zip(labels);
    let mut fields: Vec<Markup> = fields
        .map(|((name, value), (label, help))| {
            forms::line(name, label, markup::offered(value), help)
        })
        .collect();
    let state = markup::offered(visit.parameter("state"));
    fields.push(forms::carried("state", state));
    let is_narrowed = typed.iter().any(|(_, value)| !value.is_empty());
    let of = (visit.page("/effects"), Right::Read);
    let form = forms::ask_page(visit, of, fields, "Show");
    forms::folded("Narrow the list", is_narrowed, &form).within("div", "narrow")
}

/// What a list without an effect says.
fn nothing(is_narrowed: bool, has_next: bool) -> Markup {
    match (has_next, !is_narrowed) {
        (true, _) => empty::nothing(
            "Among the newest effects there is none of this kind. Older ones may have some.",
        ),
        (false, true) => empty::teach(
            "There is no effect yet. The ledger has one entry for each change that a run makes to the outside world.",
            "semel run start FLOW --key order-1 --input '{\"order\": \"order-1\"}'",
            "docs/concepts.md",
        ),
        (false, false) => empty::nothing("There is no such effect."),
    }
}

/// The heading of a column that names the runs of effects, and how each is named.
pub(super) type NamedBy<'a> = (&'static str, &'a dyn Fn(&Effect) -> Markup);

/// The effects of one run as a table.
pub(super) fn table(visit: &Visit, caption: &str, effects: &[Effect]) -> Markup {
    effects_table(visit, caption, effects, None, true)
}

/// The effects of an archived run as a table: they have no pages of their own.
pub(super) fn archived_table(visit: &Visit, caption: &str, effects: &[Effect]) -> Markup {
    effects_table(visit, caption, effects, None, false)
}

/// Effects of several runs as a table, with how each run is named.
pub(super) fn table_by(
    visit: &Visit,
    caption: &str,
    effects: &[Effect],
    named: NamedBy<'_>,
) -> Markup {
    effects_table(visit, caption, effects, Some(named), true)
}

fn effects_table(
    visit: &Visit,
    caption: &str,
    effects: &[Effect],
    named: Option<NamedBy<'_>>,
    with_links: bool,
) -> Markup {
    let row = |effect: &Effect| {
        let step = markup::code(&effect.step);
        let mut row = vec![
            markup::effect_state(effect.state),
            match with_links {
                true => step.link(&visit.page(&format!("/effects/{}", effect.id))),
                false => step,
            },
            Markup::text(&format!("{}, {}", effect.kind, effect.guard)),
            markup::code(effect.external_id.as_deref().unwrap_or_default()),
            Markup::text(&attempts(effect)),
            visit.time(effect.intended_at),
        ];
        row.extend(named.map(|(_, name)| name(effect)));
        row
    };
    let rows: Vec<Vec<Markup>> = effects.iter().map(row).collect();
    let columns = [
        "State",
        "Step",
        "Kind, guard",
        "External id",
        "Attempts",
        "Intended",
    ];
    let columns: Vec<&'static str> = columns
        .into_iter()
        .chain(named.map(|(column, _)| column))
        .collect();
    markup::table(caption, &columns, &rows)
}

/// How many attempts there were. Without one, others had made the effect.
fn attempts(effect: &Effect) -> String {
    match effect.attempt {
        0 => "0, sent nothing".to_owned(),
        number => number.to_string(),
    }
}

/// What operators did, as a table.
pub(super) fn acts_table(visit: &Visit, acts: &[Act]) -> Markup {
    let row = |act: &Act| {
        vec![
            visit.time(act.at),
            Markup::text(&act.actor),
            Markup::text(&act.action),
            Markup::text(act.reason.as_deref().unwrap_or("-")),
        ]
    };
    let rows: Vec<Vec<Markup>> = acts.iter().map(row).collect();
    markup::table("What operators did", &["When", "Who", "What", "Why"], &rows)
}

/// What is known of an effect.
pub(super) fn facts(visit: &Visit, effect: &Effect) -> Markup {
    let run = effect.run.to_string();
    let source = effect.source.as_ref();
    let connection = effect
        .sent
        .as_ref()
        .and_then(|sent| sent.connection.as_deref());
    let optional = |text: Option<&str>| text.map(markup::code).unwrap_or_default();
    markup::facts(vec![
        ("State", markup::effect_state(effect.state)),
        (
            "Key of the run",
            match source {
                Some(source) => {
                    markup::code(&source.key).link(&visit.page(&format!("/runs/{run}")))
                }
                None => markup::code(&run).link(&visit.page(&format!("/runs/{run}"))),
            },
        ),
        (
            "Flow",
            source
                .map(|source| Markup::text(&source.flow))
                .unwrap_or_default(),
        ),
        ("Kind", Markup::text(&effect.kind)),
        ("Guard", Markup::text(&effect.guard)),
        ("Attempts", Markup::text(&attempts(effect))),
        (
            "First attempt",
            effect
                .first_intended_at
                .map(|at| visit.time(at))
                .unwrap_or_default(),
        ),
        ("Last attempt", visit.time(effect.intended_at)),
        ("Connection", optional(connection)),
        ("External id", optional(effect.external_id.as_deref())),
        (
            "Key sent",
            effect
                .key_sent
                .map(|key| markup::code(&key.to_string()))
                .unwrap_or_default(),
        ),
        (
            "Seen",
            effect.note.as_deref().map(Markup::text).unwrap_or_default(),
        ),
        (
            "At the destination",
            effect
                .find_url
                .as_deref()
                .map(|url| markup::link_out("look there", url))
                .unwrap_or_default(),
        ),
        (
            "Receivers",
            match effect.kind == EMIT {
                true => receivers(visit, effect),
                false => Markup::default(),
            },
        ),
        ("Can be denied", deniable(visit, effect)),
        ("Looked into by", attended(effect, |it| &it.assignee)),
        ("Noted", attended(effect, |it| &it.note)),
        (
            "Snoozed until",
            snoozed_until(effect)
                .map(|at| visit.time(at))
                .unwrap_or_default(),
        ),
    ])
}

/// Leads to who received an event, which is the effect of a step that emits.
pub(super) fn receivers(visit: &Visit, event: &Effect) -> Markup {
    let page = visit.page(&format!("/events/{}", event.id));
    Markup::fixed("see who received it").link(&page)
}

/// From when on a doubt may be settled as *did not happen*, and why not before.
fn deniable(visit: &Visit, effect: &Effect) -> Markup {
    let Some(deniable) = &effect.deniable else {
        return Markup::default();
    };
    let opens = match deniable.from > visit.now {
        true => "Did not happen opens",
        false => "Did not happen is open since",
    };
    let why = format!(
        "Before that, the last attempt could still arrive: a paused server may begin to send for {}, the exchange takes up to {}, and the destination may act for {} after it.",
        deniable.lease, deniable.timeout, deniable.acts_within
    );
    let opens = markup::assembled(format!("{opens} {}.", visit.time(deniable.from)));
    Markup::join([opens, Markup::text(&why).within("span", "quiet-text")])
}

/// What people said of a doubt.
fn attended(effect: &Effect, of: impl Fn(&Attended) -> &Option<String>) -> Markup {
    let said = effect.attended.as_ref().and_then(|it| of(it).as_deref());
    said.map(Markup::text).unwrap_or_default()
}

/// Until when a doubt is put off.
fn snoozed_until(effect: &Effect) -> Option<Timestamp> {
    effect.attended.as_ref()?.snoozed_until
}

/// What was sent.
pub(super) fn sent_markup(sent: &Sent, whole: &Whole) -> Markup {
    let mut parts = vec![markup::block(&sent.what, whole)];
    parts.extend(sent.body.as_deref().map(|body| markup::block(body, whole)));
    if sent.cut {
        parts.push(Markup::text("There is more than is shown.").within("p", "help"));
    }
    Markup::join(parts)
}
