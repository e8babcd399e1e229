//! Subscription renewal reminders.

use anyhow::{Context, Result};
use serde_json::Value;

use super::house::House;

/// Twelve that renew this week, one later, one cancelled. With these plans the list takes more room
/// than a journal has.
const SHOP: &str = "
CREATE TABLE subscriptions (id bigint PRIMARY KEY, term bigint, plan text, price_cents bigint,
                            email text, state text, renews_on date);
INSERT INTO subscriptions
SELECT id, 3, repeat('family ', 1000), 900, 'mia' || id || '@customer.example',
       CASE id WHEN 14 THEN 'cancelled' ELSE 'active' END,
       CASE id WHEN 13 THEN current_date + 30 ELSE current_date + 4 END
  FROM generate_series(1, 14) id";

#[tokio::test]
async fn a_subscription_is_reminded_once_a_term_however_many_mornings_find_it() -> Result<()> {
    let mut house = House::open("renewal-reminders").await?;
    let shop = house.to.database()?.connect().await?;
    shop.batch_execute(SHOP).await?;
    house
        .providers()
        .lose_answer("POST", "/mailer/emails")
        .await?;

    let fire = "semel schedule fire renewal-reminders --next";
    let first = house.data(fire).await?;
    let again = house.data(fire).await?;
    let run = first["run"].as_str().context("a run")?;
    let done = house.until_state(run, "succeeded").await?;

    assert_eq!(again["run"], first["run"], "an instant has one run");
    assert_eq!(done["result"]["due"], 12);
    let mut to = recipients(&house).await?;
    to.dedup();
    assert_eq!(
        to.len(),
        12,
        "twelve mails, though an answer was lost: {to:?}"
    );
    assert_eq!(house.providers().lines().await?.len(), 12);
    let sent = house.providers().requests("POST", "/mailer/emails").await?;
    assert_eq!(sent.len(), 13, "one was sent again, under its key");

    let next_term = "UPDATE subscriptions SET term = 4 WHERE id = 1;
                     UPDATE subscriptions SET email = 'new@customer.example' WHERE id = 2";
    shop.batch_execute(next_term).await?;
    house.sleep_for("2 days").await?;
    let next = house.next_run("renewal-reminders", run).await?;
    let next = house.until_state(&next, "succeeded").await?;

    assert_eq!(
        next["result"]["due"], 12,
        "the second morning finds them all"
    );
    let effects = house.providers().effects().await?;
    assert_eq!(effects.len(), 13, "and reminds of the new term only");
    assert_eq!(effects[12].body["to"], "mia1@customer.example");
    Ok(())
}

/// Who got a mail, sorted.
async fn recipients(house: &House) -> Result<Vec<String>> {
    let effects = house.providers().effects().await?;
    let to = |body: &Value| body["to"].as_str().unwrap_or_default().to_owned();
    let mut to: Vec<String> = effects.iter().map(|one| to(&one.body)).collect();
    to.sort();
    Ok(to)
}
