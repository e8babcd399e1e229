//! The recipes of the documentation pass their rehearsals.

use anyhow::{Context, Result};
use semel_rehearse::{Report, Selection};
use serde_json::{Value, json};

use crate::stage::World;

/// A destination that honours keys for two days.
fn keyed() -> Value {
    json!({
        "to": { "http": { "base_url": "https://keyed.example" } },
        "idempotency_keys": { "window": "2d" }
    })
}

/// The longest that the rehearsal of a recipe takes. A build for tests, beside others, is slower.
const LONGEST_MS: u64 = if cfg!(debug_assertions) {
    110_000
} else {
    30_000
};

/// The connections that a recipe rests on, where they honour keys.
pub(crate) fn connections_of(recipe: &str) -> Value {
    match recipe {
        "incident-paging" => json!({ "sms": keyed() }),
        "refund" => json!({ "payments": keyed() }),
        "renewal-reminders" => json!({ "mailer": keyed() }),
        _ => json!({}),
    }
}

/// Where the recipes are.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/recipes");

/// The text of a recipe.
pub(crate) fn read(recipe: &str) -> Result<String> {
    let path = format!("{FOLDER}/{recipe}.flow.yaml");
    std::fs::read_to_string(&path).context(path)
}

async fn passes(recipe: &str) -> Result<Report> {
    let world = World::start().await?;
    rehearses(&world, recipe, &read(recipe)?, connections_of(recipe)).await
}

async fn rehearses(
    world: &World,
    recipe: &str,
    source: &str,
    connections: Value,
) -> Result<Report> {
    let report = world
        .rehearse(&format!("{recipe}.flow.yaml"), source, connections)
        .await?;

    assert!(report.passed, "{}", report.to_text());
    let (cases, took) = (report.cases.len(), report.took_ms);
    #[expect(clippy::print_stdout, reason = "the figure is for whoever runs it")]
    {
        println!("{recipe}: {cases} cases in {took} ms");
    }
    assert!(took < LONGEST_MS, "{recipe} took {took} ms");
    Ok(report)
}

#[tokio::test]
async fn crm_to_mailing_list_passes() -> Result<()> {
    passes("crm-to-mailing-list").await?;
    Ok(())
}

#[tokio::test]
async fn csv_import_passes() -> Result<()> {
    passes("csv-import").await?;
    Ok(())
}

#[tokio::test]
async fn form_to_crm_passes_and_its_page_shows_what_is_printed() -> Result<()> {
    let report = passes("form-to-crm").await?;

    shows("form-to-crm", &matrix(&report))
}

#[tokio::test]
async fn incident_paging_passes_where_the_gateway_honours_keys() -> Result<()> {
    passes("incident-paging").await?;
    Ok(())
}

#[tokio::test]
async fn order_paid_passes() -> Result<()> {
    passes("order-paid").await?;
    Ok(())
}

#[tokio::test]
async fn order_sync_passes() -> Result<()> {
    passes("order-sync").await?;
    Ok(())
}

#[tokio::test]
async fn refund_passes_where_the_provider_honours_keys() -> Result<()> {
    passes("refund").await?;
    Ok(())
}

#[tokio::test]
async fn remote_build_passes() -> Result<()> {
    passes("remote-build").await?;
    Ok(())
}

#[tokio::test]
async fn renewal_reminders_pass_where_the_mail_service_honours_keys() -> Result<()> {
    passes("renewal-reminders").await?;
    Ok(())
}

#[tokio::test]
async fn user_provisioning_passes() -> Result<()> {
    passes("user-provisioning").await?;
    Ok(())
}

/// An invoice for each customer and month, by a schedule: two intents of one month are one intent by the key.
const MONTHLY: &str = r#"
flow: billing
trigger:
  schedule: { cron: "0 3 1 * *", zone: UTC }
keep: 60d
steps:
  - id: month
    function: date(trigger.nominal).split("-")[0] + "-" + date(trigger.nominal).split("-")[1]
  - id: invoices
    foreach:
      in: '["c-1", "c-2", "c-3"]'
      as: customer
      key: customer
      steps:
        - id: invoice
          http:
            connection: books
            post: /invoices
            json: { customer: "${{ customer }}", month: "${{ steps.month.result }}" }
          key: '"invoice/" + customer + "/" + steps.month.result'
          guard: probe
          probe:
            http: { connection: books, get: "/invoices?customer=${{ customer }}&month=${{ steps.month.result }}" }
            found: probe.json.items.size() > 0
            result: probe.json.items[0]
examples:
  - name: night
    input: {}
    answers:
      invoice: { status: 201, json: { id: inv_1 } }
      invoice.probe:
        absent: { status: 200, json: { items: [] } }
        found: { status: 200, json: { items: [{ id: inv_1 }] } }
"#;

#[tokio::test]
async fn a_monthly_key_passes_whatever_the_seed() -> Result<()> {
    let world = World::start().await?;

    for seed in 0..3 {
        let selection = Selection {
            seed,
            ..Selection::default()
        };
        let report = world
            .rehearse_some("billing.flow.yaml", MONTHLY, json!({}), &selection)
            .await?;

        assert!(report.passed, "seed {seed}: {}", report.to_text());
    }
    Ok(())
}

#[tokio::test]
async fn a_rehearsal_starts_at_the_same_instant_whenever_it_is_asked_for() -> Result<()> {
    let world = World::start().await?;
    let selection = Selection {
        fault: Some("none".to_owned()),
        ..Selection::default()
    };

    let report = world
        .rehearse_some("billing.flow.yaml", MONTHLY, json!({}), &selection)
        .await?;

    let lines = report.timelines.iter().flat_map(|it| &it.lines);
    let first = lines.map(|line| line.at.to_string()).min();
    let first = first.context("a timeline")?;
    assert!(first.starts_with("2026-01-15T12:"), "{first}");
    Ok(())
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

/// What a rehearsal prints, without counts, times and what is said of connections that are not set.
fn matrix(report: &Report) -> String {
    let text = report.to_text();
    let stays = |line: &&str| !line.starts_with("note: ") && !line.starts_with("Destinations ");
    let lines = text.lines().filter(stays).map(|line| match line {
        _ if line.starts_with("in doubt: ") => line.split(" (").next().unwrap_or(line),
        _ if line.starts_with("passed: ") => "passed",
        _ => line.trim_end(),
    });
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Compares the block of a recipe's page with what is printed; `SEMEL_BLESS=1` writes it.
fn shows(recipe: &str, printed: &str) -> Result<()> {
    let path = format!("{FOLDER}/{recipe}.md");
    let page = std::fs::read_to_string(&path)?;
    let (before, rest) = page.split_once("```text\n").context("a block of text")?;
    let (shown, after) = rest.split_once("```").context("its end")?;
    if std::env::var_os("SEMEL_BLESS").is_some() {
        return Ok(std::fs::write(
            path,
            format!("{before}```text\n{printed}```{after}"),
        )?);
    }
    assert_eq!(shown, printed, "bless it with SEMEL_BLESS=1");
    Ok(())
}
