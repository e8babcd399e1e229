//! The graph: the same bytes for the same flow, every step within the picture, and nothing but text.

use std::path::Path;

use semel_flow::{CheckContext, Examined};

use super::*;

const FLOW: &str = r#"flow: orders
trigger: { api: {}, manual: {} }
on_failure: undo
steps:
  - id: reserve
    guard: review
    http: { post: "https://stock.example/reserve" }
    undo: { http: { delete: "https://stock.example/reserved" } }
  - id: route
    switch:
      cases:
        - when: input.kind == "<b>"
          steps:
            - { id: mark, kv: { add: marked } }
            - { id: stop, return: "1" }
        - when: input.kind == "many"
          steps:
            - id: lines
              foreach:
                in: input.lines
                key: item.id
                steps:
                  - id: ship
                    guard: repeat
                    because: harmless
                    http: { post: "https://ship.example/boxes" }
  - id: both
    parallel:
      branches:
        - steps: [{ id: left, function: "1" }]
        - steps: [{ id: right, if: "input.right", function: "2" }]
"#;

fn examine(source: &str) -> Examined {
    let examined = semel_flow::examine("orders", source, &CheckContext::default());
    assert!(!examined.chart.is_empty(), "{}", examined.render(false));
    examined
}

fn graph(examined: &Examined, whole: bool) -> Graph<'_> {
    Graph {
        name: "orders",
        starts: examined
            .inventory
            .starts
            .iter()
            .map(|it| it.trigger)
            .collect(),
        steps: &examined.chart,
        whole,
        counts: StepCounts::default(),
    }
}

#[test]
fn the_same_flow_is_the_same_picture() {
    let examined = examine(FLOW);
    let drawn = graph(&examined, false).as_file();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console/graph/snapshot.svg");
    if std::env::var_os("SEMEL_BLESS").is_some() {
        std::fs::write(&file, &drawn).unwrap();
    }

    assert_eq!(
        std::fs::read_to_string(file).unwrap(),
        drawn,
        "look at the picture, then run this test with SEMEL_BLESS=1"
    );
    assert_eq!(drawn, graph(&examine(FLOW), false).as_file());
}

#[test]
fn every_step_is_drawn_within_the_picture_and_its_words_are_text() {
    let examined = examine(FLOW);
    let page = graph(&examined, false).in_page().to_string();

    for step in [
        "reserve", "route", "mark", "stop", "lines", "ship", "both", "left", "right",
    ] {
        assert!(
            page.contains(&format!("href=\"#step-{step}\"")),
            "{step}: {page}"
        );
    }
    assert!(
        page.contains("&lt;b&gt;") && !page.contains("<b>"),
        "{page}"
    );
    assert!(page.contains("undo: http") && page.contains("each of input.lines"));
    let inside = |text: &str| text.parse::<i32>().is_ok_and(|number| number >= 0);
    for (at, _) in page.match_indices(" x=\"") {
        let value = page[at + 4..].split('"').next().unwrap_or_default();
        assert!(inside(value), "{value}");
    }
}

#[test]
fn a_large_flow_is_folded_unless_all_of_it_is_asked_for() {
    let branch = |n: usize| {
        let steps = (0..20).map(|s| format!("{{ id: s{n}_{s}, function: \"1\" }}"));
        format!(
            "        - steps: [{}]\n",
            steps.collect::<Vec<_>>().join(", ")
        )
    };
    let source = format!(
        "flow: large\ntrigger: {{ api: {{}} }}\nsteps:\n  - id: all\n    parallel:\n      branches:\n{}",
        (0..10).map(branch).collect::<String>()
    );
    let examined = examine(&source);
    let (folded, whole) = (graph(&examined, false), graph(&examined, true));

    assert!(folded.is_folded() && !whole.is_folded());
    assert!(folded.as_file().contains("200 steps"));
    assert!(folded.as_file().len() < 4_000);
    assert_eq!(whole.as_file().matches("class=\"node").count(), 201);
}
