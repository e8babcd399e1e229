//! Form to model to CRM.

use anyhow::Result;
use serde_json::{Value, json};

use super::house::House;
use super::signatures::typeform;

/// What names the submission.
const TOKEN: &str = "a3a12ec67a1365927098a606107fac15";

fn submission() -> Value {
    json!({
        "event_id": "01J0000000000000000000FORM",
        "event_type": "form_response",
        "form_response": {
            "form_id": "lT4Z3j",
            "token": TOKEN,
            "submitted_at": "2026-01-01T10:00:00Z",
            "answers": [
                { "type": "text", "text": "We need forty seats.", "field": { "id": "t1", "ref": "wish" } },
                { "type": "email", "email": "Mia@Customer.example", "field": { "id": "e1", "ref": "email" } },
            ],
        },
    })
}

#[tokio::test]
async fn a_form_becomes_one_deal_whatever_the_model_says_the_second_time() -> Result<()> {
    let house = House::open("form-to-crm").await?;
    let crm = house.providers();
    crm.lose_answer("POST", "/crm/deals").await?;

    let run = house.deliver_twice(&typeform(&submission())?).await?;
    let done = house.until_state(&run, "succeeded").await?;

    let happened = [
        "PUT /crm/contacts/by-email/mia@customer.example",
        "POST /crm/deals",
        "POST /slack/chat.postMessage",
    ];
    assert_eq!(crm.lines().await?, happened);
    assert_eq!(
        house.to.model()?.asked().await?.len(),
        1,
        "the model is asked once"
    );
    let effects = crm.effects().await?;
    assert_eq!(effects[1].body["pipeline"], "sales", "{:?}", effects[1]);
    assert_eq!(effects[1].body["summary"], "We need forty seats.");
    let deal = done["result"]["deal"].as_str().unwrap_or_default();
    let told = effects[2].body["text"].as_str().unwrap_or_default();
    assert!(told.contains(deal), "{told}");

    let key = format!("form_response/{TOKEN}");
    let drop = format!("semel key drop form-to-crm {key} --reason 'delivered in the wrong year'");
    house.say(&drop).await?;
    let again = house.deliver(&typeform(&submission())?).await?;
    let done_again = house.until_state(&again.run, "succeeded").await?;

    assert_ne!(again.run, run, "the key was free, so it is another run");
    assert_eq!(done_again["result"], done["result"]);
    assert_eq!(crm.lines().await?, happened, "which performed nothing");
    Ok(())
}
