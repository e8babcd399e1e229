//! The flows of a directory, kept live: looked at now and then, published when they change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use semel_engine::{Engine, FlowError};
use semel_flow::Flow;
use semel_rehearse::Rehearsals;
use semel_store::flows;

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
    /// Files whose flows could not be published: a connection that appears may be what they lack.
    refused: BTreeMap<String, Refused>,
    /// Where the server listens, once the greeting has shown what is live.
    url: Option<String>,
}

/// A flow that is live.
pub(super) struct Live {
    pub(super) flow: Flow,
    pub(super) release: i32,
    pub(super) source: String,
}

/// Why the flow of a file was not published.
struct Refused {
    /// The number of the latest change of the configuration before it was tried.
    version: Option<i64>,
    said: String,
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
            refused: BTreeMap::new(),
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

    /// Publishes and promotes what changed since the last look, and tries what was refused again once the
    /// configuration changed.
    pub(super) async fn look(&mut self, engine: &Engine) {
        let found = self.list();
        let version = match self.refused.is_empty() {
            true => None,
            false => version(engine).await,
        };
        for (file, stamp) in &found {
            if self.seen.get(file) != Some(stamp) {
                self.refused.remove(file);
                self.bring(engine, file).await;
            } else if self
                .refused
                .get(file)
                .is_some_and(|it| it.version != version)
            {
                self.bring(engine, file).await;
            }
        }
        for file in self.seen.keys().filter(|file| !found.contains_key(*file)) {
            self.refused.remove(file);
            let left = match self.flows.contains_key(file) {
                true => "its flow stays live",
                false => "it had not been published since `semel dev` started",
            };
            output::note(&format!("{file} was deleted; {left}"));
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
        if !checked.diagnostics.is_empty() && !self.refused.contains_key(file) {
            output::note(&checked.render(Style::of_stderr().is_colored()));
        }
        let Some(flow) = checked.flow else {
            output::note(&format!("{file} is not live: fix it and save"));
            return;
        };
        // Before it is tried: what appears meanwhile is a reason to try again.
        let version = version(engine).await;
        match promote(engine, self.namespace_id, &source).await {
            Ok(release) => {
                self.refused.remove(file);
                self.take(file, flow, release, &source);
                // What was live when it started is rehearsed once it is saved again.
                if self.url.is_some() {
                    let request = rehearsing::request(self.namespace_id, file, &source);
                    rehearsing::begin(engine, self.rehearsals.clone(), request);
                }
            }
            Err(error) => {
                let mut said = String::new();
                if let FlowError::Invalid(checked) = &error {
                    said = checked.render(Style::of_stderr().is_colored());
                    said.push('\n');
                }
                said.push_str(&format!("{file} is not live: {}", chain(&error)));
                let refused = Refused { version, said };
                let before = self.refused.get(file).map(|it| &it.said);
                if before != Some(&refused.said) {
                    output::note(&refused.said);
                }
                self.refused.insert(file.to_owned(), refused);
            }
        }
    }

    fn take(&mut self, file: &str, flow: Flow, release: i32, source: &str) {
        if let Some(url) = &self.url {
            output::note(&format!("{} r{release} is live ({file})", flow.name));
            let first = !self.flows.contains_key(file);
            let line = curl::line(&flow, source, url, NAMESPACE).filter(|_| first);
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
        let source = source.to_owned();
        let live = Live {
            flow,
            release,
            source,
        };
        self.flows.insert(file.to_owned(), live);
    }
}

/// The number of the latest change of the configuration; nothing where the database does not answer.
async fn version(engine: &Engine) -> Option<i64> {
    flows::version(engine.cell().home()).await.ok()
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
