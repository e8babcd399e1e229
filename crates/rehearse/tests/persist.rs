//! Flows that keep large outputs: their rehearsals keep them in memory.

use std::sync::Arc;

use anyhow::Result;
use semel_rehearse::Report;
use semel_steps::resources::ResourcesInMemory;
use serde_json::json;

use crate::stage::World;

const KEEPS: &str = "flow: keeps\ntrigger: { api: { key: input.id } }\nsteps:\n  - id: kept\n    \
    persist: { name: 'receipt-${{ input.id }}', value: { a: 1 } }\n  - id: note\n    \
    kv: { set: receipt, value: '${{ steps.kept.result.resource }}' }\n\
    examples:\n  - { name: plain, input: { id: a1 } }\n";

fn codes(report: &Report) -> Vec<String> {
    let violations = report.cases.iter().flat_map(|case| &case.violations);
    violations
        .map(|violation| violation.code.to_string())
        .collect()
}

#[tokio::test]
async fn a_flow_that_keeps_an_output_is_rehearsed_and_the_live_store_stays_empty() -> Result<()> {
    let mut world = World::start().await?;
    let live = Arc::new(ResourcesInMemory::default());
    world.options.resources = live.clone();

    let report = world.rehearse("keeps.flow.yaml", KEEPS, json!({})).await?;

    assert!(report.passed, "{:?}", codes(&report));
    assert_eq!(live.count(), 0);
    Ok(())
}

#[tokio::test]
async fn a_server_without_a_resource_store_rehearses_without_one() -> Result<()> {
    let world = World::start().await?;

    let report = world.rehearse("keeps.flow.yaml", KEEPS, json!({})).await?;

    assert!(!report.passed, "its runs would fail");
    Ok(())
}
