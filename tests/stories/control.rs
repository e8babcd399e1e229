//! Runs that branch, wait for people, undo their effects, and are resumed after a failure, as the
//! CLI shows them.

use anyhow::{Context, Result};
use semel_testkit::Peer;
use semel_testkit::peer::Behaviour;
use serde_json::json;

use crate::desk::Desk;

const TRIP: &str = "flow: trip
trigger: { api: { key: input.id }, manual: { key: input.id } }
on_failure: undo
steps:
  - id: seat
    kv: { add: seats }
    undo: { kv: { add: seats, by: -1 } }
  - id: answer
    parallel:
      join: first
      branches:
        - steps: [{ id: paid, wait: { callback: true, within: 30d } }]
        - steps: [{ id: withdrawn, wait: { event: trip.withdrawn, match: event.id == input.id, within: 30d } }]
  - id: kept
    switch:
      cases:
        - when: has(steps.withdrawn)
          steps: [{ id: no, fail: { code: withdrawn, message: the traveller withdrew } }]
  - id: bill
    call: { flow: bill, input: { id: '${{ input.id }}' } }
result: '{\"bill\": steps.bill.result, \"paid\": steps.paid.result}'
";

const BILL: &str = "flow: bill
trigger: { api: { key: input.id } }
steps:
  - { id: number, kv: { add: bills } }
result: steps.number.result
";

const WITHDRAW: &str = "flow: withdraw
trigger: { api: { key: input.id }, manual: { key: input.id } }
steps:
  - { id: tell, emit: { event: trip.withdrawn, data: { id: '${{ input.id }}' } } }
";

const MAILING: &str = "flow: mailing
trigger: { api: { key: input.id }, manual: { key: input.id } }
steps:
  - id: each
    foreach:
      in: input.to
      key: item
      steps: [{ id: mail, http: { put: 'PEER/plain/${{ item }}', text: hi } }]
result: steps.each.result.succeeded
";

const NOBODY: &str = "flow: unreachable
trigger: { api: { key: input.id }, manual: { key: input.id } }
retry: { attempts: 2, delay: 10ms, max_delay: 20ms, within: 1h }
steps:
  - { id: call, http: { put: 'http://127.0.0.1:9/x', text: hi } }
";

#[tokio::test]
async fn first_branch_wins_and_failure_compensates() -> Result<()> {
    let flows = [("trip", TRIP), ("bill", BILL), ("withdraw", WITHDRAW)];
    let desk = Desk::open(&flows).await?;

    let first = desk.start("trip", &json!({ "id": "1" })).await?;
    let show = format!("semel run show {first}");
    desk.until_said("semel wait list", "withdrawn").await?;
    desk.start("withdraw", &json!({ "id": "1" })).await?;
    let undone = desk.until_said(&show, "seat.undo: done").await?;
    let failed = desk.until_said("semel run list --state failed", &first);
    failed.await?;
    let second = desk.start("trip", &json!({ "id": "2" })).await?;
    let waits = desk.until_said("semel wait list", "paid").await?;
    let waits = waits.lines().find(|line| line.contains(" paid "));
    let wait = waits.and_then(|line| line.split_whitespace().next());
    let wait = wait.context("the wait")?;
    desk.say(&format!("semel wait complete {wait} --payload '5'"))
        .await?;
    let show = format!("semel run show {second}");
    let paid = desk.until_said(&show, "succeeded with").await?;

    let told = [
        "one succeeded, and the others are cancelled",
        "no: failed (withdrawn): the traveller withdrew",
        "undoing what was done",
    ];
    for told in told {
        assert!(undone.contains(told), "{told}: {undone}");
    }
    assert!(paid.contains(r#"{"bill":1,"paid":5}"#), "{paid}");
    Ok(())
}

#[tokio::test]
async fn a_list_shows_its_items_and_retries_only_failed_ones() -> Result<()> {
    let peer = Peer::start().await?;
    let mailing = MAILING.replace("PEER", &peer.url(""));
    let desk = Desk::open(&[("mailing", &mailing)]).await?;
    let closed = Behaviour::RefuseWith(403);
    peer.next("/plain/b", closed).await?;
    let input = json!({ "id": "1", "to": ["a", "b"] });

    let run = desk.start("mailing", &input).await?;
    let show = format!("semel run show {run}");
    desk.until_said(&show, "item-failed").await?;
    let items = desk.say(&format!("semel run items {run}")).await?;
    let failed = desk
        .data(&format!("semel run items {run} --state failed"))
        .await?;
    desk.say(&format!("semel run resume {run} --reason 'it is open'"))
        .await?;
    desk.until_said("semel run list --flow mailing --state succeeded", &run)
        .await?;

    assert!(
        items.contains("succeeded") && items.contains("failed"),
        "{items}"
    );
    assert_eq!(
        failed["items"].as_array().map(Vec::len),
        Some(1),
        "{failed}"
    );
    assert_eq!(failed["items"][0]["key"], "b", "{failed}");
    for (path, calls) in [("/plain/a", 1), ("/plain/b", 2)] {
        let counted = peer.count(path).await?;
        assert_eq!((counted.effects, counted.calls), (1, calls), "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn runs_that_need_review_are_listed_separately() -> Result<()> {
    let desk = Desk::open(&[("unreachable", NOBODY)]).await?;

    let run = desk.start("unreachable", &json!({ "id": "1" })).await?;
    let listed = desk
        .until_said("semel run list --needs-review", &run)
        .await?;
    let doubts = desk.say("semel run list --in-doubt").await?;
    let failed = desk.say("semel run list --state failed").await?;

    assert!(listed.contains("needs_review"), "{listed}");
    assert!(
        !doubts.contains(&run) && !failed.contains(&run),
        "{doubts}{failed}"
    );
    Ok(())
}

#[tokio::test]
async fn the_same_settlement_settles_a_reopened_doubt() -> Result<()> {
    let peer = Peer::start().await?;
    let charge = format!(
        "flow: charge\ntrigger: {{ api: {{ key: input.id }}, manual: {{ key: input.id }} }}\nsteps:\n  \
         - {{ id: pay, http: {{ post: '{}', text: hi, timeout: 1s }} }}\n",
        peer.url("/plain/charge")
    );
    let desk = Desk::open(&[("charge", &charge)]).await?;
    let lost = Behaviour::CloseWithoutAnswer;
    peer.next("/plain/charge", lost).await?;

    let run = desk.start("charge", &json!({ "id": "1" })).await?;
    let (doubts, failed) = ("semel doubt list", "semel run list --state failed");
    let listed = desk.until_said(doubts, "eff_").await?;
    let effect = listed
        .split_whitespace()
        .find(|word| word.starts_with("eff_"));
    let settle = format!(
        "semel doubt settle {} --fail --reason 'not worth it'",
        effect.context("an effect")?
    );
    desk.say(&settle).await?;
    desk.until_said(failed, &run).await?;
    desk.say(&format!(
        "semel run resume {run} --reason 'a second thought'"
    ))
    .await?;
    desk.until_said(doubts, "eff_").await?;
    desk.say(&settle).await?;
    desk.until_said(failed, &run).await?;

    assert_eq!(peer.count("/plain/charge").await?.calls, 1);
    Ok(())
}
