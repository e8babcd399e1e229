//! Refund with approval.

use anyhow::Result;
use serde_json::{Value, json};

use super::house::House;
use super::signatures::desk;

fn request(id: &str, amount: i64) -> Value {
    json!({
        "kind": "refund.requested",
        "request": {
            "id": id, "charge": "ch_1", "amount": amount,
            "reason": "broken", "email": "mia@customer.example",
        },
    })
}

fn charge(refunded: i64) -> Value {
    json!({ "/payments/charges/ch_1": { "id": "ch_1", "amount": 4_200, "amount_refunded": refunded } })
}

#[tokio::test]
async fn a_refund_is_approved_and_made_once_and_never_more_than_was_paid() -> Result<()> {
    let house = House::open("refund").await?;
    let payments = house.providers();
    payments.hold(&charge(0)).await?;
    payments.lose_answer("POST", "/payments/refunds").await?;

    let run = house.deliver_twice(&desk(&request("rq_1", 2_100))?).await?;
    let asked = house.approval_of(&run).await?;
    let second = house.deliver_twice(&desk(&request("rq_2", 2_200))?).await?;
    assert_eq!(asked["shown"]["amount"], 2_100, "{asked}");
    assert_eq!(
        payments.lines().await?,
        [""; 0],
        "nothing before the approval"
    );
    payments.hold(&charge(2_100)).await?;
    let approval = asked["approval"].as_str().unwrap_or_default();
    let approve = format!("semel approval approve {approval} --comment 'seen the photo'");
    house.person_says("ada", &approve).await?;
    let done = house.until_state(&run, "succeeded").await?;

    let happened = [
        "POST /payments/refunds",
        "PUT /desk/requests/rq_1/resolution",
    ];
    assert_eq!(payments.lines().await?, happened);
    let sent = payments.requests("POST", "/payments/refunds").await?;
    assert_eq!(sent.len(), 2, "sent again after the lost answer");
    assert_eq!(sent[0].key, sent[1].key, "under the same key");
    let mails = house.to.smtp()?.mails()?;
    let refund = done["result"]["refund"].as_str().unwrap_or_default();
    assert_eq!(mails.len(), 1, "{mails:?}");
    assert!(mails[0].contains(refund), "{}", mails[0]);

    // The second request waited for the first, and sees what is left.
    let failed = house.until_state(&second, "failed").await?;
    assert_eq!(failed["fault"]["code"], "too-much", "{}", failed["fault"]);
    // An agent who types the same request gets the same run.
    let typed = request("rq_1", 2_100);
    let again = house
        .data(&format!("semel run start refund --input '{typed}'"))
        .await?;
    assert_eq!(
        (&again["run"], &again["replayed"]),
        (&json!(run), &json!(true))
    );
    assert_eq!(payments.lines().await?.len(), 2, "still one refund");
    Ok(())
}
