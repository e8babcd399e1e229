//! The recipes of the documentation pass their rehearsals.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::stage::World;

/// A destination that honours keys for two days.
fn keyed() -> Value {
    json!({
        "to": { "http": { "base_url": "https://keyed.example" } },
        "idempotency_keys": { "window": "2d" }
    })
}

async fn passes(recipe: &str, connections: Value) -> Result<()> {
    let world = World::start().await?;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/recipes");
    let path = format!("{folder}/{recipe}.flow.yaml");
    let source = std::fs::read_to_string(&path).context(path)?;
    rehearses(&world, recipe, &source, connections).await
}

async fn rehearses(world: &World, recipe: &str, source: &str, connections: Value) -> Result<()> {
    let report = world
        .rehearse(&format!("{recipe}.flow.yaml"), source, connections)
        .await?;

    assert!(report.passed, "{}", report.to_text());
    Ok(())
}

#[tokio::test]
async fn crm_to_mailing_list_passes() -> Result<()> {
    passes("crm-to-mailing-list", json!({})).await
}

#[tokio::test]
async fn csv_import_passes() -> Result<()> {
    passes("csv-import", json!({})).await
}

#[tokio::test]
async fn form_to_crm_passes() -> Result<()> {
    passes("form-to-crm", json!({})).await
}

#[tokio::test]
async fn incident_paging_passes_where_the_gateway_honours_keys() -> Result<()> {
    passes("incident-paging", json!({ "sms": keyed() })).await
}

#[tokio::test]
async fn order_paid_passes() -> Result<()> {
    passes("order-paid", json!({})).await
}

#[tokio::test]
async fn order_sync_passes() -> Result<()> {
    passes("order-sync", json!({})).await
}

#[tokio::test]
async fn refund_passes_where_the_provider_honours_keys() -> Result<()> {
    passes("refund", json!({ "payments": keyed() })).await
}

#[tokio::test]
async fn remote_build_passes() -> Result<()> {
    passes("remote-build", json!({})).await
}

#[tokio::test]
async fn renewal_reminders_pass_where_the_mail_service_honours_keys() -> Result<()> {
    passes("renewal-reminders", json!({ "mailer": keyed() })).await
}

#[tokio::test]
async fn user_provisioning_passes() -> Result<()> {
    passes("user-provisioning", json!({})).await
}

#[tokio::test]
async fn what_init_writes_passes() -> Result<()> {
    let world = World::start().await?;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/src/commands/init");
    let connections = json!({ "books": keyed(), "payments": keyed() });
    let mut templates = 0;
    for entry in std::fs::read_dir(folder)? {
        let source = std::fs::read_to_string(entry?.path())?.replace("NAME", "first");
        rehearses(&world, "first", &source, connections.clone()).await?;
        templates += 1;
    }
    assert!(templates >= 5, "{templates} templates");
    Ok(())
}
