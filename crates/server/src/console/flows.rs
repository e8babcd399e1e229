//! Flows: which there are, and which release of each is live.

use semel_api::types::{Flow, Page as Found};

use super::markup::{self, Markup};
use super::shell::{Page, Shell, show};
use super::visit::Visit;
use super::{empty, words};
use crate::answer::Answered;

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
                .map(|at| visit.time(at))
                .unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<Markup>> = found.items.iter().map(row).collect();
    let columns = ["State", "Flow", "Live", "Latest", "Rehearsal", "Published"];
    let body = match rows.is_empty() {
        true => empty::teach(
            "There is no flow yet. The first command writes one; push, publish and promote make it live.",
            "semel init orders && semel flow push orders.flow.yaml",
            "docs/language.md",
        ),
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
