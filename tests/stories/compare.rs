//! What an author sees before going live: the inventory with the connections of the server, and what
//! a release means that the live one does not.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::asked::object;
use crate::desk::Desk;

const PAY: &str = "flow: pay
trigger: { api: {} }
steps:
  - id: charge
    http: { connection: bank, post: /notes, json: { text: '${{ input.text }}' } }
    allow: [{ code: guard-unstated, because: the connection decides }]
";

/// A bank that honours keys for a day.
const BANK: &str = "semel connection create bank --kind http --base-url https://bank.example \
                    --set idempotency_keys.window=24h";

#[tokio::test]
async fn the_inventory_knows_the_connections_of_the_server() -> Result<()> {
    let desk = Desk::open(&[]).await?;
    std::fs::write(desk.folder().join("pay.txt"), PAY)?;

    let before = desk.data("semel check pay.txt").await?;
    desk.say(BANK).await?;
    let after = desk.data("semel check pay.txt").await?;
    let offline = desk.data("semel check --offline pay.txt").await?;

    let effect = |told: &Value| told["files"][0]["effects"][0].clone();
    assert_eq!(effect(&before)["guard"], "review");
    assert_eq!(effect(&after)["guard"], "key");
    assert_eq!(effect(&offline)["guard"], "review");
    let advice = effect(&offline)["advice"].clone();
    let advice = advice.as_str().context("what is not known")?;
    assert!(advice.contains("`bank` is not known here"), "{advice}");
    Ok(())
}

#[tokio::test]
async fn a_release_is_compared_with_the_live_one_by_meaning() -> Result<()> {
    let pay = PAY.replace(
        "connection: bank, post: /notes",
        "put: https://bank.example/notes",
    );
    let desk = Desk::open(&[("pay", &pay)]).await?;
    desk.until_said("semel flow show pay", "live").await?;
    let elsewhere = tempfile::tempdir()?;
    let spelled = pay.replace("{ api: {} }", "\n  api: {}");
    let keyed = pay.replace("    allow", "    key: input.order\n    allow");
    std::fs::write(elsewhere.path().join("spelled.yaml"), spelled)?;
    std::fs::write(elsewhere.path().join("keyed.yaml"), keyed)?;
    let folder = elsewhere.path().display();

    let diff = format!("semel flow diff pay --file {folder}");
    let (same, told) = object(&desk, &format!("{diff}/spelled.yaml")).await?;
    let differing = desk.say(&format!("{diff}/keyed.yaml")).await?;
    let (missing, problem) = object(&desk, "semel flow diff pay r1 r7").await?;

    assert_eq!(
        (same, &told["data"]["differences"]),
        (0, &Value::Array(vec![]))
    );
    assert!(differing.contains("input.order in the step"), "{differing}");
    assert!(differing.contains("is performed again"), "{differing}");
    assert_eq!(
        (missing, &problem["error"]["code"]),
        (5, &Value::from("release-not-found"))
    );
    Ok(())
}

#[tokio::test]
async fn everything_under_a_key_is_found_by_command() -> Result<()> {
    const VISIT: &str = "flow: visit
trigger: { api: { key: input.name } }
steps:
  - { id: count, kv: { add: 'visits/${{ input.name }}' } }
  - { id: answer, wait: { callback: true, within: 1h } }
";
    let desk = Desk::open(&[("visit", VISIT)]).await?;
    let start = "semel run start visit --input '{\"name\":\"ada\"}'";
    desk.say(start).await?;
    desk.say(start).await?;

    let found = desk.until_said("semel find ada", "Waits").await?;
    let nothing = desk.data("semel find nobody").await?;
    let keys = desk.say("semel key list visit").await?;
    let entries = desk.say("semel kv list --prefix visits/").await?;
    let value = desk.say("semel kv get visits/ada").await?;
    let put = "echo '[1, 2]' > list.json; semel resource put list.json --type application/json";
    let put = desk.data(put).await?;
    let got = format!(
        "semel resource get {}",
        put["resource"].as_str().unwrap_or("-")
    );
    let got = desk.say(&got).await?;

    for title in ["Runs", "Effects", "Waits", "Duplicates"] {
        assert!(found.contains(title), "{title}: {found}");
    }
    assert_eq!(nothing["runs"], Value::Array(vec![]));
    assert!(keys.contains("ada"), "{keys}");
    assert!(entries.contains("visits/ada"), "{entries}");
    assert_eq!(value.lines().next(), Some("1"));
    assert_eq!(got.lines().next(), Some("[1, 2]"));
    Ok(())
}
