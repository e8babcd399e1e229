//! Doubts: effects that may or may not have happened, the oldest first, by flow, step, connection and what
//! was seen.

pub(super) mod group;

use semel_api::types::{Effect, OnceEffect, Page as Found};

use super::effects;
use super::forms::section;
use super::markup::{self, Markup, Whole, assembled};
use super::shell::{Page, Shell, keep, next_page, show};
use super::visit::Visit;
use super::{empty, words};
use crate::answer::Answered;
use crate::live::Topic;
use group::Group;

/// `GET /console/{namespace}/doubts`.
pub(super) async fn page(visit: Visit) -> Answered {
    let cursor = visit.parameter("cursor");
    let asked = [("snoozed", "false"), ("cursor", cursor)];
    let json = words::address("/v1/doubts", &asked);
    // Later doubts are a page of their own, which is left as it is.
    let following = match cursor {
        "" => visit.follow(Topic::Doubts).await,
        _ => None,
    };
    let mut command = "semel doubt list".to_owned();
    if !cursor.is_empty() {
        words::push_option(&mut command, "cursor", cursor);
    }
    let shell = Shell::new(&visit, "/doubts", "Doubts", &json, &command);
    let found: Found<Effect> = match visit.get(&json).await {
        Ok(found) => found,
        Err(error) => return keep(shell, error, Vec::new()),
    };
    // Those that are put off stand behind all others.
    let snoozed: Found<Effect> = match found.next {
        Some(_) => Found {
            items: Vec::new(),
            next: None,
        },
        None => visit.get("/v1/doubts?snoozed=true&limit=200").await?,
    };
    let keys: Found<OnceEffect> = match cursor {
        "" => visit.get("/v1/once?doubts=true&limit=200").await?,
        _ => Found {
            items: Vec::new(),
            next: None,
        },
    };
    let here = visit.page("/doubts");
    let next = next_page("The next page", &here, &[], found.next.as_deref());
    let lead = match (found.items.len(), &found.next) {
        (0, None) if !keys.items.is_empty() => {
            "Keys are in doubt at which no run stands.".to_owned()
        }
        (0, None) if snoozed.items.is_empty() => "Nothing is in doubt.".to_owned(),
        (0, None) => "Everything in doubt is put off until later.".to_owned(),
        (number, next) => format!(
            "{}{} may or may not have happened. Look at the destination, then say what you found.",
            if next.is_some() { "More than " } else { "" },
            words::count(number, "effect", "effects")
        ),
    };
    let body = match found.items.is_empty() {
        true if !snoozed.items.is_empty() || !keys.items.is_empty() => Markup::default(),
        true => empty::teach(
            "An effect is in doubt where its answer was lost and nothing tells whether it happened. Its run stops until an operator has looked.",
            "semel doubt list",
            "docs/misbehaving-destinations.md",
        ),
        false => groups(&visit, found.items),
    };
    let later = put_off(&visit, &snoozed);
    let keys = in_doubt(&keys);
    let rows = Markup::join([body].into_iter().chain(next).chain(keys).chain(later));
    show(&Page {
        shell: shell.following(following),
        heading_markup: Markup::fixed("Doubts"),
        lead_markup: Markup::text(&lead),
        problem: None,
        body_markup: rows.within("div", "rows"),
    })
}

/// Keys in doubt at which no run stands, under a heading of their own: whoever asks for them waits.
fn in_doubt(keys: &Found<OnceEffect>) -> Option<Markup> {
    if keys.items.is_empty() {
        return None;
    }
    let cards = keys.items.iter().map(|effect| {
        let settle = format!(
            "Settle it: semel doubt settle {} --happened (or --did-not-happen) --reason …",
            effect.effect_key
        );
        format!(
            "<li><h3>{}</h3><p>{}</p></li>",
            markup::code(&effect.key),
            Markup::text(&settle)
        )
    });
    let list = format!("<ul class=\"doubts\">{}</ul>", cards.collect::<String>());
    Some(section("keys", "Keys", &assembled(list)))
}

/// Doubts that were put off, under a heading of their own.
fn put_off(visit: &Visit, doubts: &Found<Effect>) -> Option<Markup> {
    if doubts.items.is_empty() {
        return None;
    }
    let cards = doubts.items.iter().map(|doubt| card(visit, doubt));
    let list = format!("<ul class=\"doubts\">{}</ul>", cards.collect::<String>());
    let more = doubts.next.as_ref().map(|_| {
        let more = "There are more: `semel doubt list --snoozed` lists them.";
        Markup::text(more).within("p", "help")
    });
    let list = Markup::join([assembled(list)].into_iter().chain(more));
    Some(section("snoozed", "Snoozed", &list))
}

fn groups(visit: &Visit, mut doubts: Vec<Effect>) -> Markup {
    doubts.sort_by_key(|effect| effect.intended_at);
    let mut groups: Vec<(Group, Vec<Effect>)> = Vec::new();
    for doubt in doubts {
        let group = Group::of(&doubt);
        match groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, members)) => members.push(doubt),
            None => groups.push((group, vec![doubt])),
        }
    }
    let sections = groups.iter().map(|(group, members)| {
        let heading = format!("{} ({})", group.name(), members.len());
        let seen = match group.seen.is_empty() {
            true => Markup::default(),
            false => Markup::text(&format!("Seen: {}", group.seen)).within("p", "help"),
        };
        let together = match group.page(visit) {
            Some(page) => Markup::text("Settle or retry them together")
                .link(&page)
                .within("p", "presets"),
            None => Markup::default(),
        };
        let cards: String = members.iter().map(|doubt| card(visit, doubt)).collect();
        assembled(format!(
            "<section><h2>{}</h2>{seen}{together}<ul class=\"doubts\">{cards}</ul></section>",
            Markup::text(&heading)
        ))
    });
    Markup::join(sections)
}

fn card(visit: &Visit, doubt: &Effect) -> String {
    let page = visit.page(&format!("/effects/{}", doubt.id));
    let key = match &doubt.source {
        Some(source) => markup::code(&source.key),
        None => markup::code(&doubt.run.to_string()),
    };
    let sent = doubt
        .sent
        .as_ref()
        .map(|sent| markup::block(&sent.what, &Whole::At(format!("{page}?whole=yes"))));
    let settle = Markup::text("Look closer and settle").link(&page);
    format!(
        "<li><h3>{}</h3>{}{}<p>{settle}</p></li>",
        key.link(&page),
        effects::facts(visit, doubt),
        sent.unwrap_or_default()
    )
}
