//! User provisioning.

use anyhow::Result;
use serde_json::{Value, json};

use super::house::House;
use super::signatures::people;

fn hired(employee: &str, name: &str, starts_at: &str) -> Value {
    json!({
        "type": "employee.hired",
        "timestamp": "2026-01-01T10:00:00Z",
        "data": { "employee": employee, "name": name, "department": "kitchen", "starts_at": starts_at },
    })
}

#[tokio::test]
async fn an_employee_has_everything_on_the_first_day_or_nothing() -> Result<()> {
    let mut house = House::open("user-provisioning").await?;
    let day = house.in_days(30).await?;
    house.providers().lose_answer("POST", "/chat/seats").await?;

    let mia = people(&house, "msg_1", &hired("e_17", "Mia", &day)).await?;
    let run = house.deliver_twice(&mia).await?;
    house.until_due(&run, &day).await?;

    let mut happened = house.providers().lines().await?;
    happened.sort();
    let places = [
        "POST /chat/seats",
        "PUT /directory/users/e_17",
        "PUT /mailboxes/mailboxes/mia",
    ];
    assert_eq!(happened, places, "one seat, though its answer was lost");
    assert_eq!(
        house.to.smtp()?.mails()?.len(),
        0,
        "no welcome before the first day"
    );

    house.providers().refuse("PUT", "/mailboxes", 403).await?;
    let noa = people(&house, "msg_2", &hired("e_18", "Noa", &day)).await?;
    let failing = house.deliver_twice(&noa).await?;
    house.until_state(&failing, "failed").await?;

    let held = house.providers().held().await?;
    let left = held.values().any(|one| one["login"] == "noa");
    assert!(!left, "what was made for Noa is undone: {held:?}");
    assert!(held.values().any(|one| one["login"] == "mia"), "{held:?}");

    house.sleep_for("30 days").await?;
    let done = house.until_state(&run, "succeeded").await?;

    assert_eq!(done["result"]["login"], "mia");
    let mails = house.to.smtp()?.mails()?;
    assert_eq!(mails.len(), 1, "{mails:?}");
    assert!(mails[0].contains("mia@house.example"), "{}", mails[0]);
    Ok(())
}
