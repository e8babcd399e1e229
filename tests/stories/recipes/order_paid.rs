//! Paid order to invoice and receipt.

use anyhow::Result;
use serde_json::{Value, json};

use super::house::House;
use super::signatures::stripe;

fn paid(event: &str, session: &str, total: i64) -> Value {
    json!({
        "id": event,
        "type": "checkout.session.completed",
        "created": 1_767_261_600,
        "pending_webhooks": 1,
        "data": { "object": {
            "id": session,
            "customer": "cus_1",
            "amount_total": total,
            "currency": "eur",
            "customer_details": { "email": "mia@customer.example" },
        } },
    })
}

#[tokio::test]
async fn a_paid_order_has_one_invoice_and_a_rejected_one_none() -> Result<()> {
    let house = House::open("order-paid").await?;
    let books = house.providers();
    books.lose_answer("POST", "/books/invoices").await?;

    let order = paid("evt_1", "cs_1", 4_200);
    let run = house.deliver_twice(&stripe(&house, &order).await?).await?;
    let done = house.until_state(&run, "succeeded").await?;
    let late = house.deliver(&stripe(&house, &order).await?).await?;

    assert!(late.repeated, "a delivery after the end is a duplicate");
    assert_eq!(late.run, run);
    assert_eq!(house.duplicates(&run).await?, ["claim"]);
    let happened = ["PUT /books/customers/cus_1", "POST /books/invoices"];
    assert_eq!(books.lines().await?, happened);
    let asked = books.requests("GET", "/books/invoices").await?;
    assert_eq!(
        asked[0].query["order"], "cs_1",
        "the answer was lost, so Semel asked"
    );
    let invoice = done["result"]["invoice"].as_str().unwrap_or_default();
    let mails = house.to.smtp()?.mails()?;
    assert_eq!(mails.len(), 1, "{mails:?}");
    assert!(
        mails[0].contains(&format!("Invoice {invoice}")),
        "{}",
        mails[0]
    );

    let large = paid("evt_2", "cs_2", 2_500_000);
    let run = house.deliver_twice(&stripe(&house, &large).await?).await?;
    let asked = house.approval_of(&run).await?;
    assert_eq!(asked["shown"]["order"], "cs_2", "{asked}");
    let reject = format!(
        "semel approval reject {}",
        asked["approval"].as_str().unwrap_or_default()
    );
    house.person_says("ada", &reject).await?;
    let failed = house.until_state(&run, "failed").await?;

    assert_eq!(failed["fault"]["code"], "approval-rejected");
    let held = books.held().await?;
    let invoices = held
        .keys()
        .filter(|path| path.starts_with("/books/invoices/"));
    assert_eq!(
        invoices.count(),
        1,
        "the rejected invoice is gone: {held:?}"
    );
    assert_eq!(
        house.to.smtp()?.mails()?.len(),
        1,
        "and no mail was sent about it"
    );
    Ok(())
}
