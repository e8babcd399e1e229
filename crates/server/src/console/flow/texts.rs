//! What the page of a flow says, in tables and sentences.

use semel_api::types::{Flow, FlowDetail, Page as Found, Release};
use semel_flow::release::WebhookAuth;
use semel_flow::{ChartStep, Flow as Checked, Inventory, examples, sample_payload};

use super::super::forms::folded;
use super::super::graph::StepCounts;
use super::super::markup::{self, Markup, assembled, escape};
use super::super::shell::{Shell, keep, next_page, show_list};
use super::super::visit::Visit;
use super::super::words;
use crate::answer::Answered;

pub(super) fn lead(flow: &Flow, shown: Option<&Release>) -> String {
    let state = match (&flow.paused, flow.live) {
        (Some(pause), _) => format!("Paused by {}: {}", pause.by, pause.reason),
        (None, Some(live)) => match &flow.proof {
            Some(proof) => format!("Release r{live} is live; it is {proof}."),
            None => format!("Release r{live} is live."),
        },
        (None, None) => "No release is live.".to_owned(),
    };
    match shown {
        Some(shown) if Some(shown.number) != flow.live => {
            format!("{state} This page shows r{}.", shown.number)
        }
        Some(_) | None => state,
    }
}

/// An input that the flow can make something of.
pub(super) fn example(flow: &Checked, source: &str) -> String {
    let examples = examples(source);
    let input = match examples.into_iter().next() {
        Some(example) => example.input,
        None => sample_payload(flow),
    };
    serde_json::to_string_pretty(&input).unwrap_or_default()
}

/// Where a webhook's deliveries go, and a line that makes one where nothing is signed.
pub(super) fn hook(visit: &Visit, flow: &Checked, source: &str, base: &str) -> Option<Markup> {
    let webhook = flow.trigger.webhook.as_ref()?;
    let namespace = &visit.caller().namespace;
    let base = base.trim_end_matches('/');
    let address = format!("{base}/hooks/{namespace}/{}", webhook.path);
    let proof = match &webhook.auth {
        WebhookAuth::None => "Nothing is proven: whoever knows the address can deliver.".to_owned(),
        WebhookAuth::Signature { secret, .. } => {
            format!("A delivery is signed with the secret {secret}; any other is refused.")
        }
        WebhookAuth::Token { header, secret } => {
            format!("A delivery carries the secret {secret} in the header {header}.")
        }
    };
    let mut facts = vec![
        ("Address of the hook", copied(&address)),
        ("Proof", Markup::text(&proof)),
    ];
    let open = match &webhook.auth {
        WebhookAuth::None => true,
        WebhookAuth::Signature { .. } | WebhookAuth::Token { .. } => false,
    };
    if open {
        let payload = example(flow, source);
        let payload = serde_json::from_str::<serde_json::Value>(&payload).unwrap_or_default();
        let line = format!(
            "curl -sS {} -H 'content-type: application/json' -d {}",
            words::shell_word(&address),
            words::shell_word(&payload.to_string())
        );
        facts.push(("A delivery", copied(&line)));
    }
    Some(markup::facts(facts).within("div", "hook"))
}

/// A text that a person copies.
fn copied(text: &str) -> Markup {
    assembled(format!("<code data-copy>{}</code>", escape(text)))
}

pub(super) fn starts(inventory: &Inventory) -> Markup {
    let rows: Vec<Vec<Markup>> = inventory
        .starts
        .iter()
        .map(|start| {
            vec![
                Markup::text(start.trigger.as_str()),
                markup::code(&start.key),
                Markup::text(start.proof.as_str()),
            ]
        })
        .collect();
    markup::table("What starts a run", &["Trigger", "Key", "Proof"], &rows)
}

/// The same as the picture, as a table.
pub(super) fn steps(chart: &[ChartStep], counts: &StepCounts) -> Markup {
    let mut rows = Vec::new();
    for step in chart {
        step_rows(step, "", counts, &mut rows);
    }
    let columns = [
        "Step",
        "Kind",
        "Inside of",
        "Guard",
        "Key",
        "If",
        "Undo",
        "In 24 h",
    ];
    let table = markup::table("Steps, in their order", &columns, &rows);
    let table = assembled(format!("<div id=\"graph-table\">{table}</div>"));
    folded("The same as a table", false, &table)
}

fn step_rows(step: &ChartStep, inside: &str, counts: &StepCounts, rows: &mut Vec<Vec<Markup>>) {
    let id = escape(&markup::visible(&step.id, false));
    let code = |text: &Option<String>| text.as_deref().map(markup::code).unwrap_or_default();
    rows.push(vec![
        assembled(format!("<bdi class=\"code\" id=\"step-{id}\">{id}</bdi>")),
        Markup::text(step.kind.as_str()),
        Markup::text(inside),
        step.guard
            .map(|guard| Markup::text(guard.as_str()))
            .unwrap_or_default(),
        code(&step.key),
        code(&step.condition),
        step.undo
            .map(|undo| Markup::text(undo.as_str()))
            .unwrap_or_default(),
        Markup::text(&counts.of(&step.id).words().unwrap_or_default()),
    ]);
    for list in &step.lists {
        let inside = format!("{}: {}", step.id, list.label);
        for held in &list.steps {
            step_rows(held, &inside, counts, rows);
        }
    }
}

pub(super) fn effects(inventory: &Inventory) -> Markup {
    if inventory.effects.is_empty() {
        return Markup::text("It changes nothing outside.").within("p", "empty");
    }
    let rows: Vec<Vec<Markup>> = inventory
        .effects
        .iter()
        .map(|effect| {
            vec![
                markup::code(&effect.step),
                markup::code(&effect.key),
                Markup::text(&effect.guard.to_string()),
                Markup::text(&effect.after_crash),
                Markup::text(if effect.retry_safe { "yes" } else { "no" }),
                Markup::text(effect.left_to_person.as_deref().unwrap_or("nothing")),
            ]
        })
        .collect();
    let columns = [
        "Step",
        "Key",
        "Guard",
        "After a crash",
        "Retry safe",
        "Left to people",
    ];
    markup::table("Effects", &columns, &rows)
}

pub(super) fn releases(visit: &Visit, found: &FlowDetail) -> Markup {
    let page = visit.page(&format!("/flows/{}", words::encoded(&found.flow.name)));
    let row = |release: &Release| {
        let number = release.number;
        let state = match found.flow.live == Some(number) {
            true => markup::other_state("good", "●", "live"),
            false => Markup::default(),
        };
        let mut numbers = found.releases.iter().map(|it| it.number);
        let before = match found.flow.live {
            Some(live) if live != number => Some(live),
            Some(_) | None => numbers.find(|other| *other == number - 1),
        };
        let diff = before.map(|before| {
            let href = format!("{page}/diff/r{before}..r{number}");
            Markup::text(&format!("from r{before}")).link(&href)
        });
        vec![
            Markup::text(&format!("r{number}")).link(&format!("{page}?release={number}")),
            state,
            visit.time(release.published_at),
            Markup::text(release.proof.as_deref().unwrap_or("not rehearsed"))
                .link(&format!("{page}/releases/{number}/rehearsal")),
            diff.unwrap_or_default(),
            markup::code(release.digest.get(..13).unwrap_or(&release.digest)),
        ]
    };
    let rows: Vec<Vec<Markup>> = found.releases.iter().map(row).collect();
    let columns = [
        "Release",
        "State",
        "Published",
        "Rehearsal",
        "Difference",
        "Digest",
    ];
    let table = markup::table("Releases, the newest first", &columns, &rows);
    let older = found.older_releases.as_deref();
    let older = next_page("Older releases", &format!("{page}/releases"), &[], older);
    Markup::join([table].into_iter().chain(older))
}

/// `GET /console/{namespace}/flows/{flow}/releases`.
pub(in crate::console) async fn releases_page(visit: Visit) -> Answered {
    let (flow, cursor) = (
        words::encoded(visit.part("flow")),
        visit.parameter("cursor"),
    );
    let asked = [("limit", "100"), ("cursor", cursor)];
    let json = words::address(&format!("/v1/flows/{flow}/releases"), &asked);
    let mut command = "semel flow releases".to_owned();
    for (option, value) in asked.iter().filter(|(_, value)| !value.is_empty()) {
        words::push_option(&mut command, option, value);
    }
    command.push_str(&format!(" {}", words::operand(visit.part("flow"))));
    let page = visit.page(&format!("/flows/{flow}"));
    let back = Markup::text("The flow").link(&page).within("p", "presets");
    let shell = Shell::new(&visit, "/flows", "Releases", &json, &command);
    let found: Found<Release> = match visit.get(&json).await {
        Ok(found) => found,
        Err(error) => return keep(shell, error, vec![back]),
    };
    let row = |release: &Release| {
        let number = release.number;
        vec![
            Markup::text(&format!("r{number}")),
            visit.time(release.published_at),
            Markup::text(release.proof.as_deref().unwrap_or("not rehearsed"))
                .link(&format!("{page}/releases/{number}/rehearsal")),
            markup::code(release.digest.get(..13).unwrap_or(&release.digest)),
        ]
    };
    let rows: Vec<Vec<Markup>> = found.items.iter().map(row).collect();
    let columns = ["Release", "Published", "Rehearsal", "Digest"];
    let table = markup::table("Releases, the newest first", &columns, &rows);
    let here = format!("{page}/releases");
    let next = next_page("Older releases", &here, &[], found.next.as_deref());
    let lead = Markup::text(&format!("Releases of {}.", visit.part("flow")));
    show_list(shell, lead, [back, table].into_iter().chain(next).collect())
}
