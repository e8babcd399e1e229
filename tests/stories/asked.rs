//! What is asked for through the command line: keys, people, items, and the JSON of every answer.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use semel_testkit::until;
use serde_json::{Value, json};

use crate::desk::Desk;

const REFUND: &str = "flow: refund
trigger: { api: { key: input.refund_id }, manual: { key: input.refund_id } }
input_schema: { type: object, required: [refund_id], properties: { refund_id: { type: string } } }
steps:
  - id: pay
    kv: { add: refunds }
result: steps.pay.result
";

const SIGN: &str = "flow: sign
trigger: { manual: {} }
steps:
  - id: sign_off
    approval: { from: [finance], show: 1, within: 1d }
result: steps.sign_off.result.by
";

const WORK: &str = "flow: work
trigger: { manual: {} }
steps:
  - id: act
    task: { queue: nobody, within: 1d }
    guard: natural
";

const LONG: &str = "flow: long
trigger: { manual: {} }
steps:
  - { id: text, function: '[1,2,3,4,5,6,7,8,9].map(x, \"a long text of some words\").join(\" \")' }
result: steps.text.result
";

/// A command's exit code and the object that it wrote.
pub(crate) async fn object(desk: &Desk, line: &str) -> Result<(i64, Value)> {
    let said = desk
        .say(&format!("{line} --json; code=$?; echo; echo $code"))
        .await?;
    let mut lines = said.lines().filter(|line| !line.is_empty());
    let first = lines.next().context("an object")?;
    let code = lines.next().context("an exit code")?;
    ensure!(lines.next().is_none(), "more than one object: {said}");
    Ok((code.parse()?, serde_json::from_str(first)?))
}

#[tokio::test]
async fn one_intent_is_one_run_however_it_is_started() -> Result<()> {
    let desk = Desk::open(&[("refund", REFUND)]).await?;
    let start = "semel run start refund --input '{\"refund_id\":\"r-1\"}'";

    for key in ["a", "b", "c"] {
        let (code, refused) = object(&desk, &format!("{start} --key {key}")).await?;
        assert_eq!(code, 2, "{refused}");
        assert_eq!(refused["error"]["code"], "key-declared");
    }
    let (code, first) = object(&desk, &format!("{start} --wait 30s")).await?;
    let (again_code, again) = object(&desk, start).await?;

    assert_eq!((code, again_code), (0, 0), "{first} {again}");
    assert_eq!(first["data"]["run"], again["data"]["run"]);
    assert_eq!(again["data"]["state"], "succeeded", "as it stands");
    assert_eq!(again["data"]["result"], json!(1));
    assert_eq!(again["data"]["replayed"], true);
    let (code, unfit) = object(&desk, "semel run start refund --input '{\"refund_id\":7}'").await?;
    assert_eq!(
        (code, &unfit["error"]["code"]),
        (2, &json!("input-invalid"))
    );
    let listed = desk.data("semel run list").await?;
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1));
    Ok(())
}

#[tokio::test]
async fn a_run_that_waits_shows_what_it_waits_for() -> Result<()> {
    let desk = Desk::open(&[("sign", SIGN), ("work", WORK)]).await?;

    // None of these waits for the run's end: that would take longer than a command of a test may run.
    let (code, waited) = object(&desk, "semel run start sign --key 1 --wait 1h").await?;
    let run = waited["data"]["run"].as_str().context("a run")?.to_owned();
    let (watch_code, watched) = object(&desk, &format!("semel run watch {run}")).await?;
    let (_, shown) = object(&desk, &format!("semel run show {run}")).await?;

    assert_eq!((code, watch_code), (3, 3), "{watched}");
    for told in [&waited, &watched, &shown] {
        let wanted = &told["data"]["waits_for"][0];
        let id = wanted["approval"].as_str().context("an approval")?;
        assert_eq!(
            (&wanted["kind"], &wanted["step"]),
            (&json!("approval"), &json!("sign_off"))
        );
        let next = told["next"].as_array().context("next")?;
        let shows = json!(format!("semel approval show {id}"));
        ensure!(next.iter().any(|one| one["command"] == shows), "{told}");
        let decides = |one: &Value| one["command"].to_string().contains("approval approve");
        ensure!(
            !next.iter().any(decides),
            "a decision is never `next`: {told}"
        );
    }
    let (code, idle) = object(&desk, "semel run start work --key 1 --wait 1h").await?;
    assert_eq!(code, 3);
    assert_eq!(idle["data"]["waits_for"][0]["queue"], "nobody", "{idle}");
    Ok(())
}

#[tokio::test]
async fn a_long_result_is_cut_and_can_be_seen_whole() -> Result<()> {
    let desk = Desk::open(&[("long", LONG)]).await?;
    let cut = desk.say("semel run start long --key 1 --wait 30s").await?;
    let full = desk
        .say("semel run start long --key 1 --wait 30s --full")
        .await?;

    ensure!(cut.contains("(--full shows all of it)"), "{cut}");
    ensure!(
        full.matches("a long text of some words").count() == 9,
        "{full}"
    );
    Ok(())
}

/// Commands whose answers programs read. What is behind `RUN` and the like is filled in.
const COMMANDS: &[&str] = &[
    "semel flow list",
    "semel flow show refund",
    "semel run list --limit 1",
    "semel run show RUN",
    "semel run watch RUN",
    "semel run start refund --input '{\"refund_id\":\"r-1\"}'",
    "semel run items RUN",
    "semel effect list --limit 1",
    "semel effect show EFFECT",
    "semel doubt list",
    "semel duplicate list",
    "semel duplicate list --held",
    "semel refusal list",
    "semel key show refund r-1",
    "semel wait list",
    "semel approval list",
    "semel task list",
    "semel schedule list",
    "semel connection list",
    "semel secret list",
    "semel subscription list",
    "semel resource list",
    "semel token list",
    "semel token create ci --right read,start",
    "SEMEL_TOKEN=CI semel run cancel RUN --reason x",
    "semel run show run_00000000000000000000000000000000",
    "semel run resume RUN --reason x",
];

#[tokio::test]
async fn the_json_of_commands_stays_what_it_is() -> Result<()> {
    let desk = Desk::open(&[("refund", REFUND)]).await?;
    let start = "semel run start refund --input '{\"refund_id\":\"r-1\"}'";
    let (_, started) = object(&desk, &format!("{start} --wait 30s")).await?;
    object(&desk, start).await?;
    let run = started["data"]["run"].as_str().context("a run")?;
    let (_, shown) = object(&desk, &format!("semel run show {run}")).await?;
    let effect = shown["data"]["effects"][0]["effect"]
        .as_str()
        .context("an effect")?;

    let (_, created) = object(&desk, "semel token create ci --right read,start").await?;
    let token = created["data"]["token"].as_str().context("a token")?;

    // The last use of a token is noted after its request was answered.
    let listed = async || Ok(object(&desk, "semel token list").await?.1);
    let is_noted = |listed: &Value| {
        let mut tokens = listed["data"]["items"].as_array().into_iter().flatten();
        tokens.any(|token| token["last_used_at"].is_string())
    };
    until("the use of a token to be noted", listed, is_noted).await?;

    let mut page = String::new();
    for command in COMMANDS {
        let line = command.replace("RUN", run).replace("EFFECT", effect);
        let line = line.replace("=CI ", &format!("={token} "));
        let (code, told) = object(&desk, &line).await?;
        let keys: BTreeSet<&str> = told
            .as_object()
            .context("a map")?
            .keys()
            .map(String::as_str)
            .collect();
        let expected = ["data", "error", "next", "ok", "outcome", "schema"];
        assert_eq!(keys, BTreeSet::from(expected), "{command}");
        writeln!(
            page,
            "{command}\n  exit {code}, outcome {}",
            told["outcome"]
        )?;
        let mut paths = BTreeSet::new();
        describe(&told["data"], "data", &mut paths);
        describe(&told["error"], "error", &mut paths);
        for path in paths {
            writeln!(page, "  {path}")?;
        }
    }

    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/stories/asked.json.txt");
    if std::env::var_os("SEMEL_BLESS").is_some() {
        std::fs::write(path, &page)?;
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(page, kept, "run the test with SEMEL_BLESS=1");
    Ok(())
}

/// Where something stands in an answer, and what it is. The journal's events are their own matter.
fn describe(value: &Value, path: &str, paths: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(name, _)| *name != "events") {
                describe(value, &format!("{path}.{name}"), paths);
            }
        }
        Value::Array(items) => {
            paths.insert(format!("{path}[]"));
            items
                .iter()
                .for_each(|item| describe(item, &format!("{path}[]"), paths));
        }
        Value::Null => {}
        Value::Bool(_) => drop(paths.insert(format!("{path}: bool"))),
        Value::Number(_) => drop(paths.insert(format!("{path}: number"))),
        Value::String(_) => drop(paths.insert(format!("{path}: string"))),
    }
}
