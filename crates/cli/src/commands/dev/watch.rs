//! The flows of a directory, kept live: looked at now and then, published when they change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use semel_engine::{Engine, FlowError};
use semel_flow::Flow;
use semel_rehearse::Rehearsals;

use super::rehearsing;
use crate::access::NAMESPACE;
use crate::answer::chain;
use crate::curl;
use crate::output;
use crate::style::Style;
use crate::text::printable;

/// How a flow's file ends.
const SUFFIX: &str = ".flow.yaml";

/// The name that published releases are recorded under.
const ACTOR: &str = "dev";

/// What distinguishes a changed file from an unchanged one.
type Stamp = (Option<SystemTime>, u64);

/// The flows of a directory.
pub(super) struct Watch {
    directory: PathBuf,
    namespace_id: i32,
    rehearsals: Rehearsals,
    seen: BTreeMap<String, Stamp>,
    flows: BTreeMap<String, Live>,
    /// Where the server listens, once the greeting has shown what is live.
    url: Option<String>,
}

/// A flow that is live.
pub(super) struct Live {
    pub(super) flow: Flow,
    pub(super) release: i32,
}

impl Watch {
    /// Knows nothing yet.
    pub(super) fn new(directory: &Path, namespace_id: i32, rehearsals: Rehearsals) -> Self {
        Self {
            directory: directory.to_owned(),
            namespace_id,
            rehearsals,
            seen: BTreeMap::new(),
            flows: BTreeMap::new(),
            url: None,
        }
    }

    /// The greeting has shown what is live; from here on each change is shown.
    pub(super) fn greeted(&mut self, url: &str) {
        self.url = Some(url.to_owned());
    }

    /// The flows that are live, by file.
    pub(super) const fn flows(&self) -> &BTreeMap<String, Live> {
        &self.flows
    }

    /// Publishes and promotes what changed since the last look.
    pub(super) async fn look(&mut self, engine: &Engine) {
        let found = self.list();
        for (file, stamp) in &found {
            if self.seen.get(file) != Some(stamp) {
                self.bring(engine, file).await;
            }
        }
        for file in self.seen.keys().filter(|file| !found.contains_key(*file)) {
            output::note(&format!("{file} was deleted; its flow stays live"));
        }
        self.seen = found;
    }

    fn list(&self) -> BTreeMap<String, Stamp> {
        let entries = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten();
        entries
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let there = fs::metadata(entry.path()).ok()?;
                let ours = name.ends_with(SUFFIX) && there.is_file();
                ours.then(|| (name, (there.modified().ok(), there.len())))
            })
            .collect()
    }

    /// Checks a file and makes it live, or says why not.
    async fn bring(&mut self, engine: &Engine, file: &str) {
        let Ok(source) = fs::read_to_string(self.directory.join(file)) else {
            output::note(&format!("{} cannot be read", printable(file)));
            return;
        };
        let checked = semel_flow::check(&printable(file), &source);
        if !checked.diagnostics.is_empty() {
            output::note(&checked.render(Style::of_stderr().is_colored()));
        }
        let Some(flow) = checked.flow else {
            output::note(&format!("{file} is not live: fix it and save"));
            return;
        };
        match promote(engine, self.namespace_id, &source).await {
            Ok(release) => {
                self.take(file, flow, release);
                // What was live when it started is rehearsed once it is saved again.
                if self.url.is_some() {
                    let request = rehearsing::request(self.namespace_id, file, &source);
                    rehearsing::begin(engine, self.rehearsals.clone(), request);
                }
            }
            Err(error) => {
                if let FlowError::Invalid(checked) = &error {
                    output::note(&checked.render(Style::of_stderr().is_colored()));
                }
                output::note(&format!("{file} is not live: {}", chain(&error)));
            }
        }
    }

    fn take(&mut self, file: &str, flow: Flow, release: i32) {
        if let Some(url) = &self.url {
            output::note(&format!("{} r{release} is live ({file})", flow.name));
            let first = !self.flows.contains_key(file);
            let line = curl::line(&flow, url, NAMESPACE).filter(|_| first);
            if let Some(line) = line {
                output::note(&format!("  {line}"));
            }
        }
        let twin = self
            .flows
            .iter()
            .find(|(other, live)| *other != file && live.flow.name == flow.name);
        if let Some((other, _)) = twin {
            output::note(&format!("{file} and {other} are both flow {}", flow.name));
        }
        self.flows.insert(file.to_owned(), Live { flow, release });
    }
}

/// Draft, release, live: each is the same when done twice.
async fn promote(engine: &Engine, namespace_id: i32, source: &str) -> Result<i32, FlowError> {
    let flow = engine.push_flow(namespace_id, source).await?;
    let published = engine.publish_flow(namespace_id, &flow, ACTOR).await?;
    let number = published.number;
    engine
        .promote_flow(namespace_id, &flow, number, ACTOR)
        .await?;
    Ok(number)
}
