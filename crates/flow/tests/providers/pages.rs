//! What the pages of the presets show, run through `check`.

use semel_flow::provider::{self, Provider};
use semel_flow::{CheckContext, examine};

use crate::providers::folder;

const STEPS: &str = "steps:\n  - id: seen\n    kv: { add: seen }\n";

#[test]
fn the_example_of_every_page_passes_without_an_alarm() {
    for provider in provider::all() {
        let example = example(provider);
        let named = format!("provider: {}\n", provider.name);
        assert!(example.contains(&named), "{}", provider.name);
        passes(provider, &example);
    }
}

#[test]
fn every_order_that_a_page_proposes_passes() {
    let mut proposed = 0;
    for provider in provider::all() {
        let page = page(provider).replace('\n', " ");
        for order in page.split('`').filter(|code| code.starts_with("order: {")) {
            let named = format!("provider: {}\n", provider.name);
            let with_order = format!("{named}    {order}\n");
            passes(provider, &example(provider).replace(&named, &with_order));
            proposed += 1;
        }
    }
    assert!(proposed >= 4, "{proposed} orders are proposed");
}

#[test]
fn keys_are_kept_for_as_long_as_the_source_repeats() {
    for provider in provider::all() {
        let source = format!("keep: 1h\n{}", example(provider));
        let found = examine(provider.name, &flow(&source), &CheckContext::default()).diagnostics;
        let codes: Vec<&str> = found.iter().map(|found| found.code.as_str()).collect();
        assert_eq!(codes, ["keep-short"], "{}", provider.name);
    }
}

fn passes(provider: &Provider, source: &str) {
    let examined = examine(provider.name, &flow(source), &CheckContext::default());
    let alarms = examined.render(false);
    assert!(
        examined.diagnostics.is_empty(),
        "{}\n{alarms}",
        provider.name
    );
}

/// A part of a flow, with what it needs around it.
fn flow(part: &str) -> String {
    let steps = if part.contains("\nsteps:") { "" } else { STEPS };
    format!("flow: shown\n{part}{steps}")
}

fn example(provider: &Provider) -> String {
    let page = page(provider);
    let code = page.split("```yaml\n").nth(1).unwrap();
    code.split("```").next().unwrap().to_owned()
}

fn page(provider: &Provider) -> String {
    let path = folder("../../docs/presets").join(format!("{}.md", provider.name));
    std::fs::read_to_string(path).unwrap()
}
