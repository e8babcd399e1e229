//! Effects: the ledger, and what pages say of each entry.

use jiff::Timestamp;
use semel_api::types::{Act, Attended, Effect, Page as Found, Sent};

use super::markup::{self, Markup, Whole};
use super::named_runs::NamedRuns;
use super::shell::{Page, Shell, keep, next_page, show};
use super::visit::Visit;
use super::{empty, words};
use crate::answer::Answered;

/// How many effects a page has.
const PAGE: &str = "50";

/// Lists that are often asked for.
const PRESETS: &[(&str, &str)] = &[
    ("All", ""),
    ("Done", "done"),
    ("In doubt", "in_doubt"),
    ("Failed", "failed"),
];

/// `GET /console/{namespace}/effects`.
pub(super) async fn page(visit: Visit) -> Answered {
    let (state, external) = (visit.parameter("state"), visit.parameter("external_id"));
    let cursor = visit.parameter("cursor");
    let asked = [
        ("state", state),
        ("external_id", external),
        ("limit", PAGE),
        ("cursor", cursor),
    ];
    let json = words::address("/v1/effects", &asked);
    let mut command = "semel effect list".to_owned();
    let options = [
        ("--state", state),
        ("--external-id", external),
        ("--limit", PAGE),
        ("--cursor", cursor),
    ];
    for (option, value) in options.iter().filter(|(_, value)| !value.is_empty()) {
        command.push_str(&format!(" {option} {}", words::shell_word(value)));
    }
    let links = PRESETS.iter().map(|(name, preset)| {
        let href = words::address(&visit.page("/effects"), &[("state", preset)]);
        match *preset == state {
            true => Markup::text(name).within("strong", "preset"),
            false => Markup::text(name).link(&href),
        }
    });
    let presets = Markup::join(links).within("p", "presets");
    let shell = Shell::new(&visit, "/effects", "Effects", &json, &command);
    let found: Found<Effect> = match visit.get(&json).await {
        Ok(found) => found,
        Err(error) => return keep(shell, error, vec![presets]),
    };
    let mut body = vec![presets];
    body.push(match found.items.is_empty() {
        true => nothing(state, external, found.next.is_some()),
        false => {
            let named =
                NamedRuns::of(&visit, found.items.iter().map(|it| it.run).collect()).await?;
            let by_key = |effect: &Effect| named.link(&visit, effect.run);
            let caption = "Effects, the newest first";
            table_by(&visit, caption, &found.items, ("Key of the run", &by_key))
        }
    });
    let filter = [("state", state), ("external_id", external)];
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

/// What a list without an effect says.
fn nothing(state: &str, external: &str, has_next: bool) -> Markup {
    match (has_next, state.is_empty() && external.is_empty()) {
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
    named: (&'static str, &dyn Fn(&Effect) -> Markup),
) -> Markup {
    effects_table(visit, caption, effects, Some(named), true)
}

fn effects_table(
    visit: &Visit,
    caption: &str,
    effects: &[Effect],
    named: Option<(&'static str, &dyn Fn(&Effect) -> Markup)>,
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
            Markup::text(&effect.attempt.to_string()),
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
        ("Attempts", Markup::text(&effect.attempt.to_string())),
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
    Markup::join([
        Markup::fixed(opens),
        visit.time(deniable.from),
        Markup::text(&why).within("span", "quiet-text"),
    ])
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
