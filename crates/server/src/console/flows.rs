//! Flows: which are live, and what each does to the outside world.

use axum::extract::State;
use semel_api::types::{Flow, FlowDetail, Page as Found, Release};
use semel_flow::{CheckContext, Inventory, Severity};

use super::acts::{folded, section};
use super::markup::{self, Markup};
use super::shell::{Page, Shell, show};
use super::visit::Visit;
use super::words;
use crate::answer::Answered;
use crate::app::App;

/// `GET /console/{namespace}/flows`.
pub(super) async fn page(visit: Visit) -> Answered {
    let json = "/v1/flows";
    let found: Found<Flow> = visit.get(json).await?;
    let row = |flow: &Flow| {
        let state = match (&flow.paused, flow.live) {
            (Some(_), _) => markup::other_state("rest", "◔", "paused"),
            (None, Some(_)) => markup::other_state("good", "●", "live"),
            (None, None) => markup::other_state("quiet", "✕", "not live"),
        };
        let release =
            |number: Option<i32>| number.map(|number| Markup::text(&format!("r{number}")));
        vec![
            state,
            Markup::text(&flow.name)
                .link(&visit.page(&format!("/flows/{}", words::encoded(&flow.name)))),
            release(flow.live).unwrap_or_default(),
            release(flow.latest).unwrap_or_default(),
            Markup::text(flow.proof.as_deref().unwrap_or("-")),
            flow.published_at
                .map(|at| markup::time(visit.now, at))
                .unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<Markup>> = found.items.iter().map(row).collect();
    let columns = ["State", "Flow", "Live", "Latest", "Rehearsal", "Published"];
    let body = match rows.is_empty() {
        true => Markup::text("There is no flow yet. `semel init NAME` writes one; `semel flow push`, `publish` and `promote` make it live.").within("p", "empty"),
        false => markup::table("Flows", &columns, &rows),
    };
    show(&Page {
        shell: Shell::new(&visit, "/flows", "Flows", json, "semel flow list"),
        heading_markup: Markup::fixed("Flows"),
        lead_markup: Markup::default(),
        problem: None,
        body_markup: body,
    })
}

/// `GET /console/{namespace}/flows/{flow}`.
pub(super) async fn show_one(State(app): State<App>, visit: Visit) -> Answered {
    let json = format!("/v1/flows/{}", words::encoded(visit.part("flow")));
    let found: FlowDetail = visit.get(&json).await?;
    let flow = &found.flow;
    let command = format!("semel flow show {}", words::shell_word(&flow.name));
    let lead = match (&flow.paused, flow.live) {
        (Some(pause), _) => format!("Paused by {}: {}", pause.by, pause.reason),
        (None, Some(live)) => match &flow.proof {
            Some(proof) => format!("Release r{live} is live; its rehearsal: {proof}."),
            None => format!("Release r{live} is live."),
        },
        (None, None) => "No release is live.".to_owned(),
    };
    let live = found
        .releases
        .iter()
        .find(|it| Some(it.number) == flow.live);
    let runs = words::address(
        &visit.page("/runs"),
        &[("q", &format!("flow:{}", flow.name))],
    );
    let mut body = vec![
        Markup::text("Runs of this flow")
            .link(&runs)
            .within("p", "presets"),
    ];
    if let Some(live) = live {
        let namespace_id = visit.caller().namespace_id;
        let known = app.engine.facts(namespace_id, Severity::Warning).await?;
        if let Some(inventory) = inventory(&flow.name, &live.source, known).await {
            body.push(section("starts", "What starts a run", &starts(&inventory)));
            body.push(section(
                "effects",
                "What it does, and what a crash would do",
                &effects(&inventory),
            ));
        }
        let source = markup::block(&live.source, visit.parameter("whole") == "yes");
        body.push(section(
            "source",
            "Text of the live release",
            &folded("Show the text", false, &source),
        ));
    }
    body.push(section("releases", "Releases", &releases(&visit, &found)));
    show(&Page {
        shell: Shell::new(&visit, "/flows", &flow.name, &json, &command),
        heading_markup: Markup::text(&flow.name),
        lead_markup: Markup::text(&lead),
        problem: None,
        body_markup: Markup::join(body),
    })
}

/// What the check says of a release, off the threads that serve requests.
async fn inventory(name: &str, source: &str, known: CheckContext) -> Option<Inventory> {
    let (file, source) = (format!("{name}.flow.yaml"), source.to_owned());
    let checking = move || semel_flow::examine(&file, &source, &known).inventory;
    tokio::task::spawn_blocking(checking).await.ok()
}

fn starts(inventory: &Inventory) -> Markup {
    let rows: Vec<Vec<Markup>> = inventory
        .starts
        .iter()
        .map(|start| {
            vec![
                Markup::text(start.trigger.as_str()),
                markup::code(&start.key),
            ]
        })
        .collect();
    markup::table("What starts a run", &["Trigger", "Key"], &rows)
}

fn effects(inventory: &Inventory) -> Markup {
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
                Markup::text(effect.left_to_person.as_deref().unwrap_or("nothing")),
            ]
        })
        .collect();
    let columns = ["Step", "Key", "Guard", "After a crash", "Left to people"];
    markup::table("Effects", &columns, &rows)
}

fn releases(visit: &Visit, found: &FlowDetail) -> Markup {
    let row = |release: &Release| {
        let state = match found.flow.live == Some(release.number) {
            true => markup::other_state("good", "●", "live"),
            false => Markup::default(),
        };
        vec![
            Markup::text(&format!("r{}", release.number)),
            state,
            markup::time(visit.now, release.published_at),
            Markup::text(release.proof.as_deref().unwrap_or("-")),
            markup::code(&release.digest),
        ]
    };
    let rows: Vec<Vec<Markup>> = found.releases.iter().map(row).collect();
    let columns = ["Release", "State", "Published", "Rehearsal", "Digest"];
    markup::table("Releases, the newest first", &columns, &rows)
}
