//! Waits of a month: timers of an hour to three weeks, and callbacks that come, come often, or
//! never come.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{BACK, Month};
use crate::crowd::Post;

/// The timers, in hours.
const TIMERS: [i64; 5] = [1, 26, 75, 200, 500];

/// How long a callback is waited for, in hours.
const WITHIN: i64 = 600;

/// How often a callback comes.
const TIMES: usize = 3;

/// Every so many callbacks one never comes.
const SILENT_EVERY: usize = 10;

/// The waits, and the callbacks that are still to come.
pub(crate) struct Waits {
    timers: usize,
    callbacks: usize,
    calls: Vec<Post>,
    per_leap: usize,
}

/// Puts so many runs to sleep, half of them by a timer.
pub(crate) async fn prepare(month: &mut Month, count: usize) -> Result<Waits> {
    let (timers, callbacks) = (count / 2, count - count / 2);
    let server = month.servers[0].as_ref().context("a server")?;
    for hours in TIMERS {
        let name = format!("timer-{hours}");
        let source = format!(
            "flow: {name}\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\nsteps:\n  - id: sleep\n    \
             wait: {{ for: {hours}h }}\n  - id: woken\n    kv: {{ add: 'woken/${{{{ input.id }}}}' }}\n"
        );
        month.home.publish(server, &name, &source).await?;
    }
    let source = format!(
        "flow: callback\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\nsteps:\n  - id: tell\n    \
         kv: {{ set: 'url/${{{{ input.id }}}}', value: '${{{{ waits.answer.url }}}}' }}\n  - id: answer\n    \
         wait: {{ callback: true, within: {WITHIN}h }}\n  - id: woken\n    \
         kv: {{ add: 'woken/${{{{ input.id }}}}' }}\nresult: steps.answer.result\n"
    );
    month.home.publish(server, "callback", &source).await?;
    let timed = (0..timers).map(|id| (format!("timer-{}", TIMERS[id % TIMERS.len()]), id));
    let called = (timers..count).map(|id| ("callback".to_owned(), id));
    let posts = timed.chain(called).map(|(flow, id)| Post {
        subject: id,
        path: format!("/hooks/default/{flow}"),
        body: format!(r#"{{"id":"{id}"}}"#),
    });
    month.deliver(posts.collect()).await?;
    let mut calls = until_sleeping(month, callbacks).await?;
    month.chance.shuffle(&mut calls);
    // All have come long before the waits time out.
    let per_leap = calls.len() / 20 + 1;
    Ok(Waits {
        timers,
        callbacks,
        calls,
        per_leap,
    })
}

/// Waits until every address is known, and gives the calls that will be made.
async fn until_sleeping(month: &Month, callbacks: usize) -> Result<Vec<Post>> {
    let known = "SELECT entry, value #>> '{}' FROM kv WHERE entry LIKE 'url/%'";
    month.until_rows(known, callbacks).await?;
    let mut calls = vec![];
    for row in &month.client.query(known, &[]).await? {
        let (entry, url): (&str, &str) = (row.get(0), row.get(1));
        let id: usize = entry.trim_start_matches("url/").parse()?;
        let path = url.find("/callbacks/").context("a callback's address")?;
        if id.is_multiple_of(SILENT_EVERY) {
            continue;
        }
        calls.extend((0..TIMES).map(|time| Post {
            subject: id,
            path: url[path..].to_owned(),
            body: format!(r#"{{"call":{time}}}"#),
        }));
    }
    Ok(calls)
}

impl Waits {
    /// Makes some of the calls, where a server is there to take them. One that cannot be taken now
    /// is made again at the next leap.
    pub(crate) async fn go_on(&mut self, month: &mut Month) -> Result<()> {
        let Some(server) = month.any() else {
            return Ok(());
        };
        let some = self.per_leap.min(self.calls.len());
        let calls = self.calls.split_off(self.calls.len() - some);
        for call in calls {
            match server.client.post(&call.path, call.body.clone()).await {
                Ok(answer) if answer.status.is_success() => {}
                Ok(answer) => {
                    ensure!(answer.status.is_server_error(), "{}", answer.text());
                    self.calls.insert(0, call);
                }
                Err(_) => self.calls.insert(0, call),
            }
        }
        Ok(())
    }

    /// Compares the history with what was asked for; says what there was.
    pub(crate) async fn check(&self, month: &Month) -> Result<Value> {
        ensure!(
            self.calls.is_empty(),
            "{} calls were not made",
            self.calls.len()
        );
        let woken = month.counts("woken").await?;
        let runs = "
            SELECT convert_from(r.key, 'UTF8'), f.name, r.state::text,
                   floor(extract(epoch FROM r.ended_at - coalesce(w.opened_at, r.accepted_at)) / 60)::int8,
                   r.result::text
              FROM runs r
              JOIN releases l ON l.id = r.release_id
              JOIN flows f ON f.id = l.flow_id
              LEFT JOIN waits w ON w.run_id = r.id
             WHERE f.name LIKE 'timer-%' OR f.name = 'callback'";
        let rows = month.client.query(runs, &[]).await?;
        ensure!(
            rows.len() == self.timers + self.callbacks,
            "{} runs",
            rows.len()
        );
        let mut silent = 0;
        for row in &rows {
            let (key, flow, state): (&str, &str, &str) = (row.get(0), row.get(1), row.get(2));
            let slept: Option<i64> = row.get(3);
            let slept = slept.with_context(|| format!("{key} has a wait that ended"))?;
            let count = woken.get(key).copied().unwrap_or_default();
            let id: usize = key.parse()?;
            match flow.strip_prefix("timer-") {
                Some(hours) => {
                    ensure!(
                        state == "succeeded" && count == 1,
                        "{key}: {state}, {count}"
                    );
                    let asked = hours.parse::<i64>()? * 60;
                    ensure!(
                        slept + BACK >= asked,
                        "{key} slept {slept} of {asked} minutes"
                    );
                }
                None if id.is_multiple_of(SILENT_EVERY) => {
                    silent += 1;
                    ensure!(state == "failed" && count == 0, "{key}: {state}, {count}");
                    ensure!(
                        slept + BACK >= WITHIN * 60,
                        "{key} timed out after {slept} minutes"
                    );
                }
                None => {
                    ensure!(
                        state == "succeeded" && count == 1,
                        "{key}: {state}, {count}"
                    );
                    let result: Option<&str> = row.get(4);
                    let call = result.is_some_and(|text| text.contains("\"call\""));
                    ensure!(call, "{key} has {result:?}");
                }
            }
        }
        Ok(json!({ "timers": self.timers, "callbacks": self.callbacks, "timed_out": silent }))
    }
}
