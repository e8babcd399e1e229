//! The inventory: each effect of a flow, its key, its guard, and what a crash does to it.

use semel_flow::release::HttpGuard;
use semel_flow::{Action, Flow, Step};
use semel_model::Guard;
use serde::Serialize;

use crate::style::{Style, Tone, cell, render, toned_cell};

/// One effect of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Effect {
    /// The step.
    pub(crate) step: String,
    /// The kind of step.
    pub(crate) kind: &'static str,
    /// How its key is made.
    pub(crate) key: &'static str,
    /// How it is made safe.
    pub(crate) guard: &'static str,
    /// What a crash or a lost answer leads to.
    pub(crate) after_crash: String,
    /// Whether performing it again can do harm.
    pub(crate) retry_safe: bool,
}

/// Lists the effects of a flow, in the order of its steps.
pub(crate) fn of(flow: &Flow) -> Vec<Effect> {
    flow.steps.iter().filter_map(effect).collect()
}

fn effect(step: &Step) -> Option<Effect> {
    let guard = step.guard()?;
    let kind = match &step.action {
        Action::Http(_) => "http",
        Action::Kv(_) => "kv",
        Action::Function(_) | Action::Wait(_) => return None,
    };
    Some(Effect {
        step: step.id.to_string(),
        kind,
        key: "derived",
        guard: guard.as_str(),
        after_crash: after_crash(step, guard),
        retry_safe: match guard {
            Guard::Transaction | Guard::Key | Guard::Natural | Guard::Probe => true,
            Guard::Review | Guard::Repeat => false,
        },
    })
}

fn after_crash(step: &Step, guard: Guard) -> String {
    match guard {
        Guard::Transaction => "its marker is read: it committed with the run, or not at all".into(),
        Guard::Key => format!("sent again with the same key{}", window(step)),
        Guard::Natural => "repeated: a second time changes nothing".into(),
        Guard::Probe => "a read tells: found is done, absent is performed".into(),
        Guard::Review => "in doubt: a person settles it".into(),
        Guard::Repeat => format!("repeated, and may happen twice{}", because(step)),
    }
}

fn window(step: &Step) -> String {
    match http_guard(step) {
        Some(HttpGuard::Key { window }) => format!(" for {window}, then a person settles it"),
        Some(_) | None => String::new(),
    }
}

fn because(step: &Step) -> String {
    match http_guard(step) {
        Some(HttpGuard::Repeat { because }) => format!(": {because}"),
        Some(_) | None => String::new(),
    }
}

fn http_guard(step: &Step) -> Option<&HttpGuard> {
    match &step.action {
        Action::Http(http) => Some(&http.guard),
        Action::Function(_) | Action::Kv(_) | Action::Wait(_) => None,
    }
}

/// The inventory for people.
pub(crate) fn table(effects: &[Effect], style: Style) -> String {
    let mut table = style.table(&["EFFECT", "KIND", "KEY", "GUARD", "RETRY", "AFTER A CRASH"]);
    for effect in effects {
        let (tone, retry) = if effect.retry_safe {
            (Tone::Good, "safe")
        } else {
            (Tone::Odd, "not safe")
        };
        table.add_row([
            cell(&effect.step),
            cell(effect.kind),
            cell(effect.key),
            cell(effect.guard),
            toned_cell(tone, retry),
            cell(&effect.after_crash),
        ]);
    }
    render(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
flow: orders
trigger: { api: {} }
steps:
  - id: total
    function: input.total
  - id: seen
    kv: { set: "seen/${{ input.id }}", value: true }
  - id: invoice
    http: { post: "https://books.example/invoices", json: {} }
    guard: review
  - id: customer
    http: { put: "https://books.example/customers/1", json: {} }
"#;

    #[test]
    fn every_effect_says_what_a_crash_does_to_it() {
        let checked = semel_flow::check("orders.flow.yaml", SOURCE);
        let flow = checked.flow.unwrap();

        let effects = of(&flow);

        let told: Vec<(&str, &str, bool)> = effects
            .iter()
            .map(|effect| (effect.step.as_str(), effect.guard, effect.retry_safe))
            .collect();
        let expected = [
            ("seen", "transaction", true),
            ("invoice", "review", false),
            ("customer", "natural", true),
        ];
        assert_eq!(told, expected);
        assert!(effects[1].after_crash.contains("a person settles"));
    }

    #[test]
    fn the_table_has_one_line_for_each_effect() {
        let checked = semel_flow::check("orders.flow.yaml", SOURCE);

        let table = table(&of(&checked.flow.unwrap()), Style::PLAIN);

        assert_eq!(table.lines().count(), 4, "{table}");
        assert!(
            table.contains("seen      kv    derived  transaction  safe"),
            "{table}"
        );
    }
}
