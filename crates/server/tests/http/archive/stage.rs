//! A server with an archive, time that passes, and what is in the archive's files.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use parquet::file::reader::FileReader as _;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::record::RowAccessor as _;
use semel_api::Client;
use semel_api::types::{ChildRunFilter, CompleteWait, RunDetail, StartRun};
use semel_engine::{Engine, Options, ResourceLocation};
use semel_model::{ClaimId, FlowName, Right, RunId, Span};
use semel_server::RunFiles;
use semel_store::archives::{self, SpareFile};
use semel_store::retention::{self, ClaimRule, GoingKey};
use semel_store::{Cell, CellOptions, clock};
use semel_testkit::{Peer, until, until_some};
use serde_json::{Value, json};

use crate::world::{World, add_token_of, add_token_with};

/// Everything that a sender, a destination, a list and a callback can say.
const FLOW: &str = "trigger: { api: {} }
steps:
  - { id: draft, function: '{\"note\": \"planted-function \" + input.name}' }
  - id: charge
    key: '\"charge:\" + input.id'
    scope: flow
    guard: review
    http: { post: 'PEER/plain/charges', json: { who: '${{ input.name }}' } }
    external_id: result.id
  - id: each
    foreach: { in: input.items, key: string(item.id), steps: [{ id: post, guard: review, http: { post: 'PEER/plain/items', json: { item: '${{ item }}' } } }] }
  - { id: answer, if: input.asks, wait: { callback: true, within: 1h } }
  - { id: stop, if: input.fails, fail: { message: '\"planted-fault \" + input.name' } }
result: '[steps.draft.result, input.name]'
";

/// How long runs are kept.
pub(crate) const HISTORY: Span = Span::from_const_secs(90 * 86_400);

/// How many items of a customer's run have a word planted in them.
pub(crate) const ITEMS: u64 = 16;

pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) flow: FlowName,
    /// Who charges; it ends with the test.
    _peer: Peer,
    folder: Option<tempfile::TempDir>,
}

impl Stage {
    /// A server that archives to a folder.
    pub(crate) async fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let place = ResourceLocation::Folder(folder.path().join("archive"));
        let mut stage = Self::start_at(&place).await?;
        stage.folder = Some(folder);
        Ok(stage)
    }

    pub(crate) async fn start_at(place: &ResourceLocation) -> Result<Self> {
        let (files, peer) = (RunFiles::open(place)?, Peer::start().await?);
        files.try_out().await?;
        let world = World::start_archiving(files).await?;
        let flow = FLOW.replace("PEER", peer.url("").trim_end_matches('/'));
        Ok(Self {
            flow: world.publish("orders", &flow).await?,
            world,
            _peer: peer,
            folder: None,
        })
    }

    /// A client whose token holds now.
    pub(crate) async fn client(&self) -> Result<Client> {
        let cell = self.world.engine.cell();
        let name = uuid::Uuid::now_v7().to_string();
        let token = add_token_of(cell, "main", &name, &[]).await?;
        Ok(Client::new(self.world.client.base(), &token)?)
    }

    /// A client that does not see payloads.
    pub(crate) async fn reader(&self) -> Result<Client> {
        let token = add_token_with(self.world.engine.cell(), "reader", Right::Read.into()).await?;
        Ok(Client::new(self.world.client.base(), &token)?)
    }

    /// Plays a run to its end.
    pub(crate) async fn play(&self, key: &str, input: Value) -> Result<RunId> {
        let start = StartRun {
            input,
            key: Some(key.to_owned()),
            trigger: None,
        };
        let client = self.client().await?;
        let run = client.start_run(&self.flow, &start, None).await?.body.run;
        if start.input["asks"] == true {
            let waits = async || Ok(client.list_waits(Some(run)).await?.items.pop());
            let payload = json!({"said": "planted-callback"});
            let wait = until_some("the wait of the run", waits).await?.id;
            let complete = CompleteWait { payload };
            client.complete_wait(wait, &complete, key).await?;
        }
        until_some("the run to end", async || {
            let shown = client.await_run(run, Span::from_secs(1)).await?;
            Ok(shown.state.is_ended().then_some(run))
        })
        .await
    }

    /// A customer's run, with a word planted wherever something is said.
    pub(crate) async fn play_customer(&self, key: &str) -> Result<RunId> {
        let item = |id: u64| json!({"id": id, "text": format!("planted-item-{id}")});
        let items: Vec<Value> = (0..ITEMS).map(item).collect();
        let name = format!("planted-name of {key}");
        let input = json!({"id": key, "name": name, "items": items, "asks": true, "fails": false});
        self.play(key, input).await
    }

    /// A short run.
    pub(crate) async fn play_short(&self, key: &str, fails: bool) -> Result<RunId> {
        let input = json!({"id": key, "name": key, "items": [], "asks": false, "fails": fails});
        self.play(key, input).await
    }

    /// A run and its child runs, as the API shows them. The story of their key is no part of a run: an archive does not
    /// have it.
    pub(crate) async fn shown(&self, run: RunId) -> Result<Vec<RunDetail>> {
        let client = self.client().await?;
        let mut shown = vec![client.get_run(run).await?];
        let children = client
            .list_child_runs(run, &ChildRunFilter::default())
            .await?;
        for child in children.items {
            shown.push(client.get_run(child.run).await?);
        }
        for detail in &mut shown {
            detail.under_key = None;
        }
        Ok(shown)
    }

    /// Lets time pass for the server of this test, whose services have ended: only what [`serve`](Self::serve) starts
    /// goes on.
    pub(crate) async fn days_later(&self, days: u64) -> Result<()> {
        self.world.engine.suspend();
        let cell = self.world.engine.cell();
        clock::move_ahead(cell, Duration::from_secs(days * 86_400)).await?;
        retention::forget_keys(cell.every()).await?;
        Ok(())
    }

    /// Another server on the same database: its first pass of retention is now.
    pub(crate) async fn serve(&self, keep: Option<Span>) -> Result<Engine> {
        self.serve_with(|options| options.archive_keep = keep).await
    }

    /// Another server that is set otherwise.
    pub(crate) async fn serve_with(&self, set: impl FnOnce(&mut Options)) -> Result<Engine> {
        let url = self.world.database.url();
        let cell = Cell::connect(&url, CellOptions::default()).await?;
        let mut options = self.world.engine.options().clone();
        set(&mut options);
        Ok(Engine::start(cell, options).await?)
    }

    /// Archives what is past its history, as a server does.
    pub(crate) async fn archive(&self, runs: u64) -> Result<()> {
        let engine = self.serve(None).await?;
        let archived = &engine.metrics().runs_archived;
        let look = async || Ok(archived.get());
        let count = until("the runs to be archived", look, |count| *count >= runs).await?;
        engine.shutdown().await;
        ensure!(count == runs, "{count} runs were archived, and not {runs}");
        Ok(())
    }

    pub(crate) fn path(&self) -> Result<PathBuf> {
        let folder = self.folder.as_ref().context("a folder")?;
        Ok(folder.path().join("archive"))
    }

    /// The files of the archive.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>> {
        files_in(&self.path()?)
    }

    /// Everything that the files of the archive say: their bytes, and what is in each row.
    pub(crate) fn texts(&self) -> Result<Vec<String>> {
        let mut texts = Vec::new();
        for path in self.files()? {
            let bytes = fs::read(path)?;
            texts.push(String::from_utf8_lossy(&bytes).into_owned());
            texts.extend(rows(bytes)?);
        }
        Ok(texts)
    }
}

/// The rows of a file, each as one text.
pub(crate) fn rows(bytes: Vec<u8>) -> Result<Vec<String>> {
    let file = SerializedFileReader::new(Bytes::from(bytes))?;
    let mut rows = Vec::new();
    for row in file.get_row_iter(None)? {
        let row = row?;
        let key = row.get_string(4)?;
        rows.push(format!("{key} {}", row.get_string(8)?));
    }
    Ok(rows)
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => found.extend(files_in(&path)?),
            false => found.push(path),
        }
    }
    Ok(found)
}

/// As they were shown before they were archived.
pub(crate) fn as_before(mut shown: RunDetail) -> Result<RunDetail> {
    let archived_at = shown.run.archived_at.take();
    ensure!(archived_at.is_some(), "{} is not archived", shown.run.id);
    Ok(shown)
}

/// How many rows the database has of a run.
pub(crate) async fn left(stage: &Stage, run: RunId) -> Result<i64> {
    let client = stage.world.database.connect().await?;
    let count = "SELECT (SELECT count(*) FROM runs WHERE id BETWEEN $1 AND $2)
                      + (SELECT count(*) FROM journal WHERE run_id BETWEEN $1 AND $2)
                      + (SELECT count(*) FROM effects WHERE run_id BETWEEN $1 AND $2)";
    let (low, high) = run.key_range();
    Ok(client.query_one(count, &[&low, &high]).await?.get(0))
}

/// What a server writes to a file, before it deletes anything.
pub(crate) async fn write_file(stage: &Stage, key: RunId) -> Result<(Vec<GoingKey>, SpareFile)> {
    let cell = stage.world.engine.cell();
    let claim = ClaimId::from_uuid(*key.as_uuid());
    let rule = ClaimRule::default();
    let going = retention::list_going(cell.every(), &[claim], HISTORY, &rule).await?;
    let keys = going.keys;
    ensure!(!keys.is_empty(), "nothing goes");
    let file = archives::reserve(cell.every(), "runs/1/first.parquet").await?;
    Ok((keys, file))
}
