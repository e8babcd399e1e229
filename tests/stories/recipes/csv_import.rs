//! CSV import.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::house::House;

/// How many rows the file has. With these names its rows are more than a journal keeps or an expression may make.
const ROWS: usize = 200;

/// The worker of the page, until there is no task.
const WORKER: &str = "semel worker --queue csv --until-idle 1s -- python3 rows.py";

fn file() -> Result<String> {
    let mut text = "number,name,email\n".to_owned();
    for row in 1..=ROWS {
        writeln!(
            text,
            "K-{row},\"{}, Mia\",Mia{row}@Customer.example",
            "Long".repeat(400)
        )?;
    }
    Ok(text)
}

#[tokio::test]
async fn a_file_is_imported_once_by_its_rows_and_a_failed_row_alone_again() -> Result<()> {
    let house = House::open("csv-import").await?;
    let crm = house.providers();
    let text = file()?;
    crm.hold(&json!({ "/files/customers.csv": text })).await?;
    crm.refuse("PUT", "/crm/customers/K-7", 503).await?;
    crm.refuse("PUT", "/crm/customers/K-123", 422).await?;
    let upload = |name: &str, text: &str| {
        let (url, digest) = (crm.url(&format!("files/{name}")), Sha256::digest(text));
        let file = json!({ "name": name, "url": url, "sha256": hex::encode(digest) });
        let input = json!({ "by": "ops@house.example", "file": file });
        format!("semel run start csv-import --input '{input}'")
    };

    let first = house.data(&upload("customers.csv", &text)).await?;
    let again = house.data(&upload("copy.csv", &text)).await?;
    let run = first["run"].as_str().context("a run")?;
    house.say(WORKER).await?;
    let done = house.until_state(run, "succeeded").await?;

    assert_eq!(
        again["run"], first["run"],
        "the same file is the same import"
    );
    assert_eq!(again["replayed"], true);
    assert_eq!(
        done["result"],
        json!({ "rows": ROWS, "imported": ROWS - 1 })
    );
    assert_eq!(imported(&house).await?.len(), ROWS - 1);
    let mails = house.to.smtp()?.mails()?;
    assert_eq!(mails.len(), 1, "{mails:?}");
    assert!(
        mails[0].contains("199 of 200 customers are in"),
        "{}",
        mails[0]
    );
    assert!(mails[0].contains("K-123"), "{}", mails[0]);

    let failed = house
        .data(&format!("semel run items {run} --state failed"))
        .await?;
    let items = failed["items"].as_array().context("items")?;
    let item = items[0]["run"].as_str().context("an item")?;
    assert_eq!(items.len(), 1, "{failed}");
    house
        .say(&format!(
            "semel run resume {item} --reason 'the CRM knows the country now'"
        ))
        .await?;
    house.until_state(item, "succeeded").await?;

    let (all, distinct) = (crm.lines().await?, imported(&house).await?);
    assert_eq!(
        (all.len(), distinct.len()),
        (ROWS, ROWS),
        "each customer once"
    );
    assert_eq!(
        crm.effects().await?[0].body["email"]
            .as_str()
            .map(|it| &it[..3]),
        Some("mia")
    );

    let twice = "number,name,email\nK-1,Mia,mia@customer.example\nK-1,Noa,noa@customer.example\n";
    crm.hold(&json!({ "/files/twice.csv": twice })).await?;
    let unfit = house.data(&upload("twice.csv", twice)).await?;
    house.say(WORKER).await?;
    let unfit = house
        .until_state(unfit["run"].as_str().context("a run")?, "failed")
        .await?;

    assert_eq!(unfit["fault"]["code"], "task-exit-1");
    let why = unfit["fault"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("a customer number appears twice"), "{why}");
    assert_eq!(
        crm.lines().await?.len(),
        ROWS,
        "and no row of it was imported"
    );
    Ok(())
}

/// The customers that the CRM has.
async fn imported(house: &House) -> Result<BTreeSet<String>> {
    let held = house.providers().held().await?;
    let customers = held.into_keys();
    Ok(customers
        .filter(|path| path.starts_with("/crm/customers/"))
        .collect())
}
