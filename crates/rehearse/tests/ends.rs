//! How an example's run ends, and flows that call others.

use anyhow::Result;
use serde_json::json;

use crate::stage::World;

/// A flow whose second step reads what its first does not return.
const READS_NOTHING: &str = "flow: reads\ntrigger: { api: {} }\nsteps:\n  - id: customer\n    guard: natural\n    \
    http: { post: 'https://shop.example/customers', json: {} }\n  - id: charge\n    guard: natural\n    \
    http: { post: 'https://bank.example/charges', json: { id: '${{ steps.customer.result.id }}' } }\n\
    examples:\n  - { name: plain, input: {} }\n";

#[tokio::test]
async fn an_example_whose_run_fails_proves_nothing_unless_it_says_so() -> Result<()> {
    let world = World::start().await?;
    let said = "flow: fails\ntrigger: { api: {} }\nsteps:\n  - { id: no, fail: { code: sold-out, message: gone } }\n\
        examples:\n  - { name: gone, input: {}, fails: CODE }\n";

    let silent = world
        .rehearse("reads.flow.yaml", READS_NOTHING, json!({}))
        .await?;
    let right = said.replace("CODE", "sold-out");
    let right = world.rehearse("fails.flow.yaml", &right, json!({})).await?;
    let wrong = said.replace("CODE", "no-money");
    let wrong = world.rehearse("fails.flow.yaml", &wrong, json!({})).await?;

    let codes = |report: &semel_rehearse::Report| -> Vec<String> {
        let violations = report.cases.iter().flat_map(|case| &case.violations);
        violations
            .map(|violation| violation.code.to_string())
            .collect()
    };
    assert!(!silent.passed);
    assert!(
        codes(&silent)
            .iter()
            .any(|code| code == "run-does-not-succeed")
    );
    assert!(right.passed, "{:?}", codes(&right));
    assert!(!wrong.passed);
    assert!(codes(&wrong).iter().any(|code| code == "run-does-not-fail"));
    Ok(())
}

#[tokio::test]
async fn a_called_flow_is_rehearsed_with_the_connections_that_it_uses() -> Result<()> {
    let world = World::start().await?;
    let called = "flow: pays\ntrigger: { api: {} }\nsteps:\n  - id: charge\n    guard: key\n    \
        http: { connection: bank, post: /charges, json: { id: '${{ input.id }}' } }\n";
    let caller = "flow: caller\ntrigger: { api: {} }\nsteps:\n  - id: pay\n    \
        call: { flow: pays, input: { id: '${{ input.id }}' } }\n\
        examples:\n  - { name: plain, input: { id: a1 } }\n";
    let bank = json!({ "bank": {
        "to": { "http": { "base_url": "https://bank.example" } }, "idempotency_keys": { "window": "1d" } } });

    let report = world
        .rehearse_caller(caller, &[("pays", called)], bank)
        .await?;

    let violations = report.cases.iter().flat_map(|case| &case.violations);
    let violations: Vec<String> = violations.map(|it| it.message.clone()).collect();
    assert!(report.passed, "{violations:?}");
    Ok(())
}
