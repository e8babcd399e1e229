//! `reconcile` and `probe: { before: true }`, as `check` judges them.

use semel_flow::{CheckContext, Code, Examined, KnownConnection, examine};

const FLOW: &str = r#"flow: orders
keep: 30d
trigger:
  webhook: { auth: none, key: '"order/" + input.id' }
input_schema: { type: object, required: [id], properties: { id: { type: string } } }
reconcile:
  every: 1h
  list: { http: { get: "https://shop.example/orders?since=${{ window.start }}" } }
  key: '"order/" + item.id'
  at: item.created_at
  window: 7d
steps:
  - { id: seen, kv: { add: "${{ input.id }}" } }
examples:
  - { name: paid, input: { id: o-1 } }
"#;

fn check(text: &str, change: (&str, &str)) -> Examined {
    assert!(text.contains(change.0), "{} is there", change.0);
    let text = text.replace(change.0, change.1);
    examine("orders.yaml", &text, &CheckContext::default())
}

fn codes(examined: &Examined) -> Vec<Code> {
    examined.diagnostics.iter().map(|one| one.code).collect()
}

#[test]
fn a_flow_that_fits_its_source_passes_and_shows_what_starts_it() {
    let examined = check(FLOW, ("", ""));

    assert!(examined.is_sound(), "{}", examined.render(false));
    let flow = examined.flow.expect("a flow");
    let reconcile = flow.reconcile.expect("a reconcile");
    assert_eq!(reconcile.grace.to_string(), "15m");
    let starts: Vec<&str> = examined
        .inventory
        .starts
        .iter()
        .map(|start| start.trigger.as_str())
        .collect();
    assert_eq!(starts, ["webhook", "reconcile"]);
}

#[test]
fn keys_that_differ_on_an_example_are_refused() {
    let other = (r#"key: '"order/" + item.id'"#, "key: item.id");
    assert_eq!(codes(&check(FLOW, other)), [Code::ReconcileKey]);

    // The item looks otherwise than the delivery, and only the example can say how.
    let mapped = (
        "  window: 7d\n",
        "  window: 7d\n  input: \"{'id': item.number}\"\n",
    );
    let text = FLOW.replace("+ item.id", "+ item.number");
    assert!(check(&text, mapped).is_sound(), "no example has an item");
    let text = text.replace("  window: 7d\n", mapped.1);
    let item = |number: &str| format!("input: {{ id: o-1 }}, item: {{ number: {number} }}");
    let same = item("o-1");
    let checked = check(&text, ("input: { id: o-1 }", same.as_str()));
    assert!(checked.is_sound(), "{}", checked.render(false));
    let another = item("o-2");
    let checked = check(&text, ("input: { id: o-1 }", another.as_str()));
    assert_eq!(codes(&checked), [Code::ReconcileKey]);
}

#[test]
fn a_key_that_no_item_has_cannot_be_reconciled() {
    let by_header = (
        r#"key: '"order/" + input.id' }"#,
        r#"key: 'headers["x-id"]' }"#,
    );

    assert_eq!(codes(&check(FLOW, by_header)), [Code::ReconcileKey]);
}

#[test]
fn what_a_pass_cannot_do_safely_is_refused() {
    let cases = [
        (("window: 7d", "window: 31d"), Code::ReconcileWindow),
        (("get: ", "post: "), Code::GuardUnfit),
        (("window.start", "input.start"), Code::ExpressionName),
        (("every: 1h", "cron: never"), Code::ScheduleInvalid),
        (("  at: item.created_at\n", ""), Code::MissingField),
        (
            ("  window: 7d", "  same: run.total == 1\n  window: 7d"),
            Code::ExpressionName,
        ),
    ];

    for (change, code) in cases {
        let found = codes(&check(FLOW, change));
        assert!(found.contains(&code), "{change:?}: {found:?}");
    }
}

const LOOK: &str = r#"flow: contacts
trigger: { api: {} }
steps:
  - id: contact
    http: { connection: crm, post: /contacts, json: { email: "${{ input.email }}" } }
    guard: probe
    probe: { http: { connection: crm, get: "/contacts?email=${{ input.email }}" }, found: size(probe.json) > 0 }
"#;

#[test]
fn a_probe_is_recommended_before_the_first_attempt_where_no_key_is_honoured() {
    let advised = |text: &str, key_window| {
        let known = KnownConnection {
            key_window,
            kind: Some("http"),
        };
        let context = CheckContext {
            connections: [("crm".to_owned(), known)].into(),
            unknown: None,
        };
        let examined = examine("contacts.yaml", text, &context);
        assert!(examined.is_sound(), "{}", examined.render(false));
        let effect = &examined.inventory.effects[0];
        (effect.advice.is_some(), effect.looks_first)
    };
    let first = LOOK.replace("probe: { http", "probe: { before: true, http");

    assert_eq!(advised(LOOK, None), (true, false));
    assert_eq!(advised(LOOK, "1d".parse().ok()), (false, false));
    assert_eq!(advised(&first, None), (false, true));
}
