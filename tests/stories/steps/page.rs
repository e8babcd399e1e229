//! A page of the documentation, and what stands in its blocks.

use std::path::Path;

use anyhow::{Context, Result, ensure};

/// A page: its fenced blocks, each with its word.
pub(crate) struct Page {
    blocks: Vec<(String, String)>,
}

impl Page {
    /// Reads a page below `docs/`.
    pub(crate) fn read(name: &str) -> Result<Self> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/{name}.md"));
        let text = std::fs::read_to_string(path)?;
        let fenced = text.split("```").skip(1).step_by(2);
        let blocks = fenced
            .filter_map(|block| block.split_once('\n'))
            .map(|(word, body)| (word.to_owned(), body.to_owned()))
            .collect();
        Ok(Self { blocks })
    }

    /// The first block of a kind.
    pub(crate) fn find(&self, kind: &str) -> Option<String> {
        let mut blocks = self.blocks.iter().filter(|(word, _)| word == kind);
        blocks.next().map(|(_, body)| body.clone())
    }

    /// Every block of a kind, in order.
    pub(crate) fn all(&self, kind: &str) -> Vec<String> {
        let blocks = self.blocks.iter().filter(|(word, _)| word == kind);
        blocks.map(|(_, body)| body.clone()).collect()
    }

    /// The block of a kind that the page has.
    pub(crate) fn only(&self, kind: &str) -> Result<String> {
        self.find(kind)
            .with_context(|| format!("no block of {kind}"))
    }

    /// The flows, by name.
    pub(crate) fn flows(&self) -> Result<Vec<(String, String)>> {
        let flows = self.blocks.iter().filter(|(word, _)| word == "yaml");
        let flows = flows.map(|(_, text)| {
            let name = text
                .strip_prefix("flow: ")
                .and_then(|rest| rest.lines().next());
            Ok((
                name.context("a flow begins with its name")?.to_owned(),
                text.clone(),
            ))
        });
        let flows: Vec<_> = flows.collect::<Result<_>>()?;
        ensure!(!flows.is_empty(), "the page has no flow");
        Ok(flows)
    }

    /// The commands, in order.
    pub(crate) fn commands(&self) -> Result<Vec<String>> {
        let commands: Vec<String> = self.only("sh")?.lines().map(str::to_owned).collect();
        ensure!(
            commands.iter().all(|line| line.starts_with("semel ")),
            "{commands:?}"
        );
        Ok(commands)
    }

    /// The command that starts the run.
    pub(crate) fn start(&self) -> Result<String> {
        let mut commands = self.commands()?.into_iter();
        let start = commands.find(|line| line.starts_with("semel run start"));
        start.context("the page starts a run")
    }
}
