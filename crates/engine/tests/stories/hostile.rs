//! Hostile values: whatever a sender, a destination, a worker or an operator sends, the run ends or
//! stops within a few turns, with a fault that says why.

use anyhow::{Context, Result, ensure};
use semel_engine::{Intake, Settlement};
use semel_model::effect;
use semel_model::run::RunState;
use semel_model::{EffectId, Key, RunId};
use semel_store::runs::RunSnapshot;
use semel_store::{duplicates, effects, journal, runs};
use semel_testkit::peer::Behaviour;
use semel_testkit::{patience, until};
use serde_json::{Value, json};

use crate::world::World;

/// No hostile value costs a run more rows than this.
const ROWS_MAX: usize = 10;

/// How many rows the journal of a run has.
pub(crate) async fn rows(world: &World, run: RunId) -> Result<usize> {
    let cell = world.engine.cell();
    let view = runs::find(cell.of(run), world.namespace_id, run).await?;
    let view = view.context("a run")?;
    Ok(journal::read(cell.of(run), view.partition_date, run)
        .await?
        .len())
}

/// Plays a delivery, and checks that it came to rest without growing.
async fn settles(world: &World, payload: &Value) -> Result<(RunId, RunSnapshot)> {
    let (accepted, end) = world.play(&payload.to_string()).await?;
    let before = rows(world, accepted.run).await?;
    ensure!(
        end.state != RunState::Active,
        "{payload} still moves: {end:?}"
    );
    ensure!(before < ROWS_MAX, "{payload} took {before} rows");
    world.until_at_rest(accepted.run).await?;
    let after = rows(world, accepted.run).await?;
    ensure!(
        before == after,
        "{payload} keeps writing: {before} rows, then {after}"
    );
    Ok((accepted.run, end))
}

fn fault(end: &RunSnapshot) -> Value {
    let text = end.fault.as_deref().unwrap_or("null");
    serde_json::from_str(text).unwrap_or_default()
}

/// Four kilobytes that do not compress: a thousand code points, each another one.
fn noise(chars: u32) -> String {
    let mut state = 0x2545_f491_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        char::from_u32(0x1_0000 + state % 0x1_0000).unwrap_or('x')
    };
    (0..chars).map(|_| next()).collect()
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!([inner]))
}

/// Texts that JSON allows and a column of text does not, or not in an index.
fn hostile() -> Vec<String> {
    vec![
        "a\0b".to_owned(),
        noise(1_000),
        "x".repeat(3_000),
        "\u{1}\u{7f}\u{fffe}".to_owned(),
    ]
}

#[tokio::test]
async fn a_simple_flow_fails_cleanly_on_a_zero_byte() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: greeting\n    function: '{\"text\": \"Hello, \" + input.name}'\n\
             \x20 - id: remember\n    kv:\n      set: 'greeted/${{ input.id }}'\n\
             \x20     value: '${{ steps.greeting.result.text }}'\nresult: steps.greeting.result\n",
        )
        .await?;

    let (_, end) = settles(&world, &json!({ "id": "a\0b", "name": "x" })).await?;

    let refused = world.engine.metrics().writes_refused.get();
    assert_eq!(refused, 0, "it is found before the database is asked");
    assert_eq!(end.state, RunState::Failed, "{end:?}");
    assert_eq!(fault(&end)["code"], json!("value-unstorable"));
    Ok(())
}

#[tokio::test]
async fn an_unstorable_name_fails_its_step_before_the_intent() -> Result<()> {
    let world = World::start_with_outputs().await?;
    let steps = [
        "kv: { set: '${{ input.name }}', value: 1 }",
        "kv: { set: '${{ input.name }}', value: 1, if_absent: true }",
        "kv: { get: '${{ input.name }}' }",
        "kv: { delete: '${{ input.name }}' }",
        "kv: { add: '${{ input.name }}' }",
        "kv: { lock: '${{ input.name }}', lease: 5s }",
        "kv: { unlock: '${{ input.name }}' }",
        "persist: { value: x, name: '${{ input.name }}' }",
    ];
    for (number, step) in steps.iter().enumerate() {
        world
            .publish(&format!("steps:\n  - id: a\n    {step}\n"))
            .await?;
        for (index, name) in hostile().iter().enumerate() {
            let payload = json!({ "id": format!("{number}/{index}"), "name": name });
            let (run, end) = settles(&world, &payload).await?;
            if name.len() > 512 || name.contains('\0') {
                assert_eq!(end.state, RunState::Failed, "{step}: {end:?}");
                assert_eq!(fault(&end)["code"], json!("value-unstorable"), "{step}");
            } else {
                assert_eq!(end.state, RunState::Succeeded, "{step}: {end:?}");
            }
            let _ = run;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_shared_entry_with_a_zero_can_be_compared() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: a\n    kv: { set: shared, value: '${{ input.value }}' }\n\
             \x20 - id: b\n    kv: { set: shared, value: 2, expect: '${{ input.expect }}' }\n\
             result: steps.b.result.set\n",
        )
        .await?;
    let big = 9_007_199_254_740_993_i64;
    let cases = [
        (json!("a\0b"), json!("a\0b"), true),
        (json!("a\0b"), json!("a"), false),
        (json!({ "a": [1, "\0"] }), json!({ "a": [1.0, "\0"] }), true),
        (nested(60), nested(60), true),
        (json!((big - 2).to_string()), json!(big.to_string()), false),
    ];
    for (index, (value, expect, equal)) in cases.into_iter().enumerate() {
        let payload = json!({ "id": index.to_string(), "value": value, "expect": expect });
        let (_, end) = settles(&world, &payload).await?;
        assert_eq!(end.result, Some(equal.to_string()), "{payload}: {end:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_long_external_id_is_recorded_and_the_effect_is_made_once() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: charge\n    http: { post: 'PEER/keyed/x?id_chars=3000', json: { a: 1 } }\n\
             \x20   guard: key\n    external_id: result.id\nresult: steps.charge.external_id\n",
        )
        .await?;

    let (run, end) = settles(&world, &json!({ "id": "1" })).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    let whole: String = serde_json::from_str(&end.result.unwrap_or_default())?;
    assert_eq!(whole.len(), 3_000, "the flow sees all of it");
    assert_eq!(world.peer.count("/keyed/").await?.calls, 1);
    let cell = world.engine.cell();
    let found =
        effects::list_of_external_id(cell.every(), world.namespace_id, &whole, None, None, 10)
            .await?
            .items;
    assert_eq!(found.len(), 1, "it is found by all of it");
    assert_eq!(found[0].run, run);
    let other = format!("{whole}x");
    let found =
        effects::list_of_external_id(cell.every(), world.namespace_id, &other, None, None, 10)
            .await?
            .items;
    assert!(found.is_empty(), "and by no other");
    Ok(())
}

#[tokio::test]
async fn an_answer_that_nests_too_deep_is_done_and_can_be_read_back() -> Result<()> {
    let world = World::start().await?;
    for levels in [64, 100, 101, 125, 126, 127] {
        let source = format!(
            "steps:\n  - id: charge\n    http: {{ post: 'PEER/plain/{levels}?nested={levels}' }}\n\
             \x20 - id: pause\n    wait: {{ for: 100ms }}\nresult: steps.charge.result\n"
        );
        world.publish(&source).await?;
        let (_, end) = settles(&world, &json!({ "id": levels.to_string() })).await?;
        assert_eq!(end.state, RunState::Succeeded, "{levels}: {end:?}");
        let path = format!("/plain/{levels}");
        assert_eq!(world.peer.count(&path).await?.effects, 1, "{levels}");
        let result: Value = serde_json::from_str(&end.result.unwrap_or_default())?;
        assert_eq!(result.is_string(), levels > 100, "{levels}: {result}");
    }
    Ok(())
}

#[tokio::test]
async fn a_step_can_ask_whether_its_answer_nests_too_deep() -> Result<()> {
    let world = World::start().await?;
    for (levels, too_deep) in [(64, false), (126, true)] {
        let source = format!(
            "steps:\n  - id: charge\n    http: {{ post: 'PEER/plain/{levels}?nested={levels}' }}\n\
             \x20   result: has(response.too_deep) && response.too_deep\n\
             result: steps.charge.result\n"
        );
        world.publish(&source).await?;

        let (_, end) = settles(&world, &json!({ "id": levels.to_string() })).await?;

        assert_eq!(end.state, RunState::Succeeded, "{levels}: {end:?}");
        let result: Value = serde_json::from_str(&end.result.unwrap_or_default())?;
        assert_eq!(result, json!(too_deep), "{levels}");
    }
    Ok(())
}

#[tokio::test]
async fn a_read_that_nests_too_deep_fails_the_step() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: look\n    http: { get: 'PEER/plain/x?nested=126' }\n\
             \x20 - id: pause\n    wait: { for: 100ms }\n",
        )
        .await?;

    let (_, end) = settles(&world, &json!({ "id": "1" })).await?;

    assert_eq!(end.state, RunState::Failed, "{end:?}");
    assert_eq!(fault(&end)["code"], json!("answer-too-deep"));
    Ok(())
}

#[tokio::test]
async fn a_template_cannot_build_what_nests_too_deep() -> Result<()> {
    let world = World::start().await?;
    let value = format!(
        "{}'${{{{ steps.look.result }}}}'{}",
        "[".repeat(15),
        "]".repeat(15)
    );
    for (levels, state) in [(80, RunState::Succeeded), (95, RunState::Failed)] {
        let source = format!(
            "steps:\n  - id: look\n    http: {{ get: 'PEER/plain/x?nested={levels}' }}\n\
             \x20 - id: a\n    kv: {{ set: deep, value: {value} }}\n\
             \x20 - id: b\n    wait: {{ for: 50ms }}\n"
        );
        world.publish(&source).await?;
        let (_, end) = settles(&world, &json!({ "id": levels.to_string() })).await?;
        assert_eq!(end.state, state, "{levels}: {end:?}");
        if state == RunState::Failed {
            assert_eq!(fault(&end)["code"], json!("value-limit"));
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_wait_for_an_event_takes_any_value_to_match() -> Result<()> {
    let world = World::start().await?;
    let long = noise(1_000);
    world
        .publish(
            "steps:\n  - id: paid\n    wait: { event: paid, match: event.of == input.of, within: 1h }\n\
             result: steps.paid.result.n\n",
        )
        .await?;
    for (index, of) in [long.as_str(), "a\0b"].into_iter().enumerate() {
        let payload = json!({ "id": index.to_string(), "of": of }).to_string();
        let waiting = world.deliver(&payload).await?;
        let look = async || {
            let cell = world.engine.cell();
            let view = runs::find(cell.of(waiting.run), world.namespace_id, waiting.run).await?;
            Ok(view.map(|view| view.state_word()))
        };
        until("the run to wait", look, |word| *word == Some("waiting")).await?;
        let source = "flow: teller\ntrigger:\n  webhook: { auth: none, key: input.id }\n\
                      steps:\n  - id: tell\n    emit: { event: paid, data: '${{ input }}' }\n";
        world.publish_source(source).await?;
        let told = json!({ "id": format!("t{index}"), "of": of, "n": index }).to_string();
        world.deliver_to("teller", &told).await?;

        let end = world.engine.await_end(waiting.run, patience()).await?;
        let end = end.context("a run")?;

        assert_eq!(end.state, RunState::Succeeded, "{end:?}");
        assert_eq!(end.result, Some(index.to_string()));
    }
    Ok(())
}

#[tokio::test]
async fn an_item_s_key_may_be_any_text() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: each\n    foreach: { in: input.items, as: item, key: item.k, steps: \
             [ { id: one, kv: { add: total } } ] }\nresult: steps.each.result.succeeded\n",
        )
        .await?;
    let items: Vec<Value> = hostile().into_iter().map(|k| json!({ "k": k })).collect();

    let (_, end) = settles(&world, &json!({ "id": "1", "items": items })).await?;

    assert_eq!(end.result, Some("4".to_owned()), "{end:?}");
    Ok(())
}

#[tokio::test]
async fn what_an_operator_writes_may_be_any_text() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: charge\n    http: { post: 'PEER/plain/x', text: hi }\n    guard: review\n",
        )
        .await?;
    for (index, text) in hostile().into_iter().enumerate() {
        world
            .peer
            .next("/plain/", Behaviour::CloseWithoutAnswer)
            .await?;
        let (accepted, stands) = world
            .play(&json!({ "id": index.to_string() }).to_string())
            .await?;
        assert_eq!(stands.state, RunState::InDoubt, "{stands:?}");
        let effect = EffectId::derive(accepted.run, "charge", "", 0);
        let settlement = Settlement::Happened {
            external_id: Some(text.clone()),
            result: Some(json!({ "note": text })),
            reason: "looked it up".to_owned(),
        };
        let id = world.namespace_id;
        world.engine.settle(id, effect, settlement, "test").await?;
        let end = world.engine.await_end(accepted.run, patience()).await?;
        let end = end.context("a run")?;
        assert_eq!(end.state, RunState::Succeeded, "{end:?}");
        let view = effects::find(world.engine.cell().of(effect), id, effect).await?;
        assert_eq!(view.map(|view| view.state), Some(effect::EffectState::Done));
    }
    world.until_sound().await
}

#[tokio::test]
async fn any_key_that_a_delivery_brings_is_taken() -> Result<()> {
    let world = World::start().await?;
    world
        .publish("steps:\n  - id: a\n    function: input.id\nresult: steps.a.result\n")
        .await?;
    for text in hostile() {
        let payload = json!({ "id": text, "deep": nested(60), "big": 9_007_199_254_740_992_i64 });
        if Key::new(text.as_bytes()).is_err() {
            continue;
        }
        let (_, end) = settles(&world, &payload).await?;
        assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    }
    let too_deep = world
        .try_deliver(&json!({ "id": "d", "deep": nested(64) }).to_string())
        .await;
    assert!(too_deep.is_err(), "{too_deep:?}");
    let beyond = world
        .try_deliver(r#"{"id":"d","big":9007199254740993}"#)
        .await;
    assert!(beyond.is_err(), "{beyond:?}");
    world.until_sound().await
}

#[tokio::test]
async fn a_delivery_that_is_answered_as_held_is_listed_whatever_its_key() -> Result<()> {
    let world = World::start().await?;
    let source = "flow: held\ntrigger:\n  webhook: { auth: none, key: input.id, mismatch: hold }\n\
                  steps:\n  - { id: count, kv: { add: seen } }\n";
    world.publish_source(source).await?;

    let mut acknowledged = 0;
    for text in hostile() {
        if Key::new(text.as_bytes()).is_err() {
            continue;
        }
        let order = |total: u32| json!({ "id": text, "total": total, "note": text }).to_string();
        world.deliver_to("held", &order(1)).await?;
        let other = world.try_deliver_to("held", &order(2)).await?;
        ensure!(matches!(other, Intake::Held(_)), "{other:?}");
        acknowledged += 1;
    }

    let every = world.engine.cell().every();
    let held = duplicates::list_held(every, world.namespace_id, None, None, 100, true);
    let (listed, _) = held.await?;
    assert!(acknowledged > 1);
    assert_eq!(listed.len(), acknowledged);
    world.until_sound().await
}

#[tokio::test]
async fn a_business_key_and_an_event_of_any_text_leave_every_list_whole() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: charge\n    key: '\"charge:\" + input.text'\n    scope: namespace\n    guard: review\n    \
             http: { post: 'PEER/plain/charges', json: { id: '${{ input.id }}' } }\n\
             \x20 - id: tell\n    emit: { event: charged, data: '${{ input }}' }\n",
        )
        .await?;

    for (index, text) in hostile().into_iter().enumerate() {
        let payload = json!({ "id": index.to_string(), "text": text });
        settles(&world, &payload).await?;
    }

    world.until_sound().await
}
