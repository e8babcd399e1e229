//! What `semel dev` says once everything stands.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

use super::watch::Live;
use crate::access::NAMESPACE;
use crate::answer::Answer;
use crate::curl;
use crate::style::Style;

/// Where everything is.
pub(super) struct Place<'a> {
    /// The server.
    pub(super) url: &'a str,
    /// The address that opens the console, once.
    pub(super) console: Option<&'a str>,
    /// What is kept.
    pub(super) folder: &'a Path,
}

/// The greeting, for people and for programs.
pub(super) fn of(place: &Place<'_>, flows: &BTreeMap<String, Live>, style: Style) -> Answer {
    let Place {
        url,
        console,
        folder,
    } = *place;
    let mut lines = vec![format!("semel is ready at {}", style.bold(url))];
    if let Some(console) = console {
        lines.push("Console (once, within a minute; `semel open` makes another address):".into());
        lines.push(format!("  {console}"));
    }
    lines.push(String::new());
    let mut data = Vec::new();
    for (file, live) in flows {
        let name = &live.flow.name;
        let line = curl::line(&live.flow, &live.source, url, NAMESPACE);
        lines.push(format!(
            "{} r{} is live ({file})",
            style.bold(name.as_str()),
            live.release
        ));
        if let Some(line) = &line {
            lines.extend([format!("  {line}"), String::new()]);
        }
        data.push(json!({"flow": name, "file": file, "release": live.release, "curl": line}));
    }
    lines.extend(advice(flows.is_empty()));
    let data = json!({
        "url": url,
        "console": console,
        "namespace": NAMESPACE,
        "token_file": folder.join("token"),
        "flows": data,
    });
    Answer::done(data, lines.join("\n")).next("semel run list")
}

fn advice(empty: bool) -> Vec<String> {
    let mut lines = Vec::new();
    if empty {
        lines.push("There is no flow here yet. Write one, in another terminal:".to_owned());
        lines.push("  semel init greet".to_owned());
    } else {
        lines.push("Send it twice: the second response is the first one's. Then look:".to_owned());
        lines.push("  semel run list          what ran".to_owned());
        lines.push("  semel duplicate list    what was stopped".to_owned());
    }
    lines.push(String::new());
    lines.push(
        "Flows may call this machine (127.0.0.1) here; `semel serve` refuses that.".to_owned(),
    );
    lines.push("Flows are read again when they are saved. Ctrl-C stops everything.".to_owned());
    lines
}
