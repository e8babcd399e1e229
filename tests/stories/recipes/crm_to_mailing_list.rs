//! CRM to mailing list.

use anyhow::Result;
use serde_json::{Value, json};

use super::house::House;
use super::signatures::hubspot;

/// Three changes in one delivery. Each says less than the CRM knows.
fn changes(attempt: i64) -> Value {
    let change = |contact: i64, stage: &str| {
        json!({
            "eventId": 3_816_279_340_i64 + contact, "subscriptionId": 25, "portalId": 33,
            "occurredAt": 1_767_261_600_000_i64, "subscriptionType": "contact.propertyChange",
            "attemptNumber": attempt, "objectId": contact,
            "propertyName": "lifecyclestage", "propertyValue": stage,
        })
    };
    json!([
        change(1, "lead"),
        change(2, "customer"),
        change(3, "customer")
    ])
}

fn contact(id: i64, name: &str, stage: &str) -> Value {
    let email = format!("{name}@Customer.example");
    let properties = json!({ "email": email, "firstname": name, "lifecyclestage": stage });
    let contact = json!({ "id": id.to_string(), "properties": properties });
    let path = format!("/hubspot/crm/v3/objects/contacts/{id}");
    json!({ path: contact })
}

#[tokio::test]
async fn the_list_says_of_each_contact_what_the_crm_says_now() -> Result<()> {
    let house = House::open("crm-to-mailing-list").await?;
    let list = house.providers();
    // Mia became a customer after the change that is delivered; Noa is one no longer.
    list.hold(&contact(1, "Mia", "customer")).await?;
    list.hold(&contact(2, "Noa", "evangelist")).await?;
    list.refuse("PUT", "/list", 503).await?;

    let first = house.deliver(&hubspot(&house, &changes(0)).await?).await?;
    let again = house.deliver(&hubspot(&house, &changes(1)).await?).await?;
    let failed = house.until_state(&first.run, "failed").await?;

    assert!(
        again.repeated,
        "the number of the attempt is no other delivery"
    );
    assert_eq!(again.run, first.run);
    assert_eq!(
        failed["fault"]["code"], "item-failed",
        "the CRM does not have the third yet"
    );
    assert_eq!(
        customers(&house).await?,
        [("mia".to_owned(), true), ("noa".to_owned(), false)]
    );

    list.hold(&contact(3, "Ada", "customer")).await?;
    house
        .say(&format!(
            "semel run resume {} --reason 'the CRM has caught up'",
            first.run
        ))
        .await?;
    house.until_state(&first.run, "succeeded").await?;

    let members = customers(&house).await?;
    assert_eq!(
        members.len(),
        3,
        "the failed one alone was tried again: {members:?}"
    );
    assert_eq!(list.lines().await?.len(), 3, "each member was set once");
    Ok(())
}

/// Who is on the list, and whether as a customer, by name.
async fn customers(house: &House) -> Result<Vec<(String, bool)>> {
    let effects = house.providers().effects().await?;
    let member = |body: &Value| {
        let email = body["email"].as_str().unwrap_or_default();
        let name = email.split('@').next().unwrap_or_default();
        (name.to_owned(), body["customer"] == json!(true))
    };
    let mut members: Vec<_> = effects.iter().map(|one| member(&one.body)).collect();
    members.sort();
    Ok(members)
}
