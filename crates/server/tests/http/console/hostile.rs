//! Two hundred hostile texts in every field that senders, destinations, workers, authors and operators
//! fill, with script on: nothing runs, and every page is whole.

mod corpus;

use anyhow::{Context, Result, ensure};
use semel_api::types::{ClaimTasks, DropKey, FailTask, PushFlow, StartRun};
use semel_model::RunId;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::Browser;
use super::browser::{browse, link_of};
use crate::world::{World, patience_span};
use corpus::corpus;

/// What a page has to be, whatever it shows.
const WHOLE: &str = "(() => {
  const tags = ['IMG', 'IFRAME', 'OBJECT', 'EMBED', 'STYLE', 'BASE', 'MATH', 'TEMPLATE', 'NOSCRIPT', 'BODY BODY'];
  const acts = (it) => tags.includes(it.tagName.toUpperCase())
    || [...it.attributes].some(a => a.name.startsWith('on') || /^\\s*(javascript|data):/i.test(a.value));
  const odd = [...document.querySelectorAll('*')].filter(acts).map(it => it.outerHTML.slice(0, 200));
  if (window.pwned !== undefined) odd.push('pwned');
  if (document.querySelectorAll('script').length !== 1) odd.push('script');
  if (document.querySelectorAll('h1').length !== 1) odd.push('h1');
  if (document.querySelectorAll('link[rel=stylesheet]').length !== 1) odd.push('stylesheet');
  if (!(document.querySelector('.same')?.getBoundingClientRect().height > 0)) odd.push('the foot is gone');
  if (document.documentElement.scrollWidth > innerWidth) odd.push('too wide: ' + document.documentElement.scrollWidth);
  const shown = document.body.innerText.split('window.pwned=1').length - 1;
  return { odd, shown, next: document.querySelector('.next a')?.getAttribute('href') || '' };
})()";

/// A destination that answers everything with one text.
async fn destination(body: String) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let body = body.clone();
            tokio::spawn(async move {
                let mut read = [0; 65_536];
                let _ = stream.read(&mut read).await;
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
                let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    Ok(format!("http://{address}/"))
}

/// Everything under its own text.
fn all_of(texts: &[String]) -> Value {
    let members = texts.iter().map(|text| (text.clone(), json!(text)));
    Value::Object(members.collect::<Map<String, Value>>())
}

async fn start(world: &World, flow: &str, key: &str, input: Value) -> Result<RunId> {
    let start = StartRun {
        key: Some(key.to_owned()),
        input,
        ..StartRun::default()
    };
    let started = world.client.start_run(&flow.parse()?, &start, None).await?;
    Ok(started.body.run)
}

/// A text in quotes, as expressions and flow files both read it: a file may hold no such character itself.
fn quoted(text: &str) -> String {
    let letters = text.chars().map(|letter| match letter {
        '"' | '\\' => format!("\\{letter}"),
        ' '..='~' => letter.to_string(),
        letter => format!("\\U{:08x}", u32::from(letter)),
    });
    format!("\"{}\"", letters.collect::<String>())
}

/// A flow whose author is hostile: the texts stand in conditions, and so in its graph and its difference.
fn authored(texts: &[String]) -> String {
    let case = |(number, text): (usize, &String)| {
        let when = quoted(&format!("input.kind == {}", quoted(text)));
        format!("        - when: {when}\n          steps: [{{ id: s{number}, function: '1' }}]\n")
    };
    let cases: String = texts.iter().enumerate().map(case).collect();
    format!(
        "about: {}\ntrigger: {{ api: {{}} }}\nsteps:\n  - id: route\n    switch:\n      cases:\n{cases}",
        quoted(&texts.join(" "))
    )
}

/// Lets senders, destinations, workers and operators fill what they can. Returns the pages that show it.
async fn fill(world: &World, texts: &[String]) -> Result<Vec<String>> {
    let client = &world.client;
    let answer = json!({ "id": texts[0], "all": all_of(texts) });
    let url = destination(answer.to_string()).await?;
    let echo = format!(
        "trigger: {{ api: {{}} }}\nsteps:\n  - id: send\n    guard: review\n    http: {{ post: '{url}', json: '${{{{ input }}}}' }}\n    \
         external_id: result.id\nresult: steps.send.result\n"
    );
    world.publish("echo", &echo).await?;
    world
        .publish(
            "keyed",
            "trigger: { api: {} }\nsteps:\n  - { id: one, kv: { add: seen } }\n",
        )
        .await?;
    let worked = "trigger: { api: {} }\nsteps:\n  - id: work\n    \
                  task: { queue: images, input: '${{ input }}', within: 1h, lease: 30s }\n    guard: review\n    retry: { attempts: 1 }\n";
    world.publish("worked", worked).await?;
    let asking = "trigger: { api: {} }\nsteps:\n  - id: sign\n    \
                  approval: { from: [test], show: '${{ input }}', within: 1h }\n";
    world.publish("asking", asking).await?;
    world.publish("authored", &authored(&texts[..20])).await?;
    let (flow, source) = (
        "authored".parse()?,
        format!("flow: authored\n{}", authored(texts)),
    );
    client.push_flow(&flow, &PushFlow { source }).await?;
    client.publish_flow(&flow, "second").await?;

    let whole = start(world, "echo", "whole", all_of(texts)).await?;
    let asked = start(world, "asking", "asked", all_of(texts)).await?;
    for text in texts {
        let run = start(world, "keyed", text, json!({ "text": text })).await?;
        start(world, "keyed", text, json!({ "text": text })).await?;
        client.await_run(run, patience_span()).await?;
        let reason = text.clone();
        client
            .drop_key(
                &"keyed".parse()?,
                text,
                &DropKey {
                    reason,
                    new_intent: false,
                },
                text_key(text).as_str(),
            )
            .await?;
        start(world, "worked", text, json!({ "text": text })).await?;
    }
    work(world, texts).await?;
    let approval = world.until_asked(asked).await?;
    let end = client.await_run(whole, patience_span()).await?;
    ensure!(end.state.is_ended(), "{end:?}");
    let effect = client
        .get_run(whole)
        .await?
        .effects
        .pop()
        .context("an effect")?;
    Ok([
        "/".to_owned(),
        "/runs".to_owned(),
        "/effects".to_owned(),
        "/duplicates".to_owned(),
        "/audit".to_owned(),
        "/doubts".to_owned(),
        "/tasks?all=yes".to_owned(),
        "/flows".to_owned(),
        "/flows/authored".to_owned(),
        "/flows/authored?release=2&whole=yes".to_owned(),
        "/flows/authored/diff/r1..r2".to_owned(),
        format!("/runs/{whole}?whole=yes"),
        format!("/effects/{}?whole=yes", effect.id),
        format!("/approvals/{}", approval.approval),
    ]
    .map(|page| format!("/console/main{page}"))
    .to_vec())
}

fn text_key(text: &str) -> String {
    let bytes: String = text
        .bytes()
        .take(60)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("drop-{bytes}-{}", text.len())
}

/// Workers with hostile names claim the tasks and report with hostile words.
async fn work(world: &World, texts: &[String]) -> Result<()> {
    for (number, text) in texts.iter().enumerate() {
        let name: String = text
            .chars()
            .take(60)
            .filter(|it| !it.is_control())
            .collect();
        let claim = ClaimTasks {
            queue: "images".to_owned(),
            max: Some(1),
            wait: Some(patience_span()),
            worker: Some(name),
            lease: None,
        };
        let claimed = world
            .client
            .claim_tasks(&claim, &format!("claim {number}"))
            .await?;
        let task = claimed.tasks.first().context("a task")?;
        let fail = FailTask {
            token: task.token,
            code: None,
            message: text.clone(),
            retryable: false,
            retry_after: None,
            in_doubt: true,
        };
        world.client.fail_task(task.task, &fail).await?;
    }
    Ok(())
}

#[tokio::test]
async fn two_hundred_hostile_texts_are_shown_everywhere_and_run_nowhere() -> Result<()> {
    let texts = corpus();
    assert_eq!(texts.len(), 200);
    let world = World::start().await?;
    let pages = fill(&world, &texts).await?;
    let link = link_of(&world).await?;
    let base = format!("http://{}", world.address);
    let keys = texts.iter().step_by(5).map(|text| {
        let text: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
        format!("/console/main/keys?key={text}")
    });
    let keys: Vec<String> = keys.collect();

    let shown = browse(move |browser| {
        browser.look(320, 640, false)?;
        browser.open(&link, "location.pathname === '/console/main/'")?;
        let mut left: Vec<String> = pages.into_iter().chain(keys).rev().collect();
        let mut shown = 0;
        let mut count = 0;
        while let Some(page) = left.pop() {
            browser.open(
                &format!("{base}{page}"),
                "document.querySelector('.same button.copy')",
            )?;
            let seen = browser.eval(WHOLE)?;
            ensure!(seen["odd"] == json!([]), "{page}: {}", seen["odd"]);
            shown += seen["shown"].as_u64().unwrap_or_default();
            count += 1;
            if let Some(next) = seen["next"].as_str().filter(|next| !next.is_empty()) {
                left.push(next.to_owned());
            }
            ensure!(browser.seen.is_empty(), "{page}: {:?}", browser.seen);
        }
        ensure!(count > 60, "{count} pages");
        Ok(shown)
    })
    .await?;

    ensure!(shown > 1_000, "the texts are shown: {shown} times");
    Ok(())
}

#[tokio::test]
async fn what_is_asked_for_is_text_whatever_it_is() -> Result<()> {
    let world = World::start().await?;
    let browser = Browser::signed_in(&world).await?;

    for text in corpus() {
        let spelled: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
        for page in [
            format!("/console/main/keys?key={spelled}"),
            format!("/console/main/runs?q=flow:x%20{spelled}"),
            format!("/console/main/effects?external_id={spelled}"),
            format!("/console/main/effects?flow=x&step={spelled}&state={spelled}"),
            format!("/console/main/tasks?queue={spelled}"),
            format!("/console/main/audit?actor={spelled}"),
            format!("/console/main/refusals?code={spelled}"),
        ] {
            let answer = browser.get(&page).await?;
            let body = answer.text();
            ensure!(!answer.status.is_server_error(), "{page}: {body}");
            ensure!(body.matches("<script").count() <= 1, "{page}: {body}");
            let turned = [
                '\u{202e}', '\u{2066}', '\u{200b}', '\u{7}', '\u{1b}', '\u{2028}',
            ];
            ensure!(!body.contains(turned), "{page}: {body}");
        }
    }
    Ok(())
}
