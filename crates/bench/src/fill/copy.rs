//! One COPY for each table, all at the same time.

use anyhow::{Context, Result};
use bytes::Bytes;
use futures_util::SinkExt as _;
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::JoinHandle;

use super::read::TABLES;

/// How many chunks wait for one table.
const WAITING_MAX: usize = 4;

/// How long the text of one chunk becomes, about.
const CHUNK_BYTES: usize = 1 << 20;

/// Open copies into every table.
pub(super) struct Copies {
    tables: Vec<Table>,
    /// What the copies will have, in the order of [`TABLES`].
    pub(super) texts: Vec<String>,
}

struct Table {
    sender: Sender<Bytes>,
    copying: JoinHandle<Result<u64>>,
}

impl Copies {
    /// Opens them.
    pub(super) async fn open(url: &str) -> Result<Self> {
        let mut tables = Vec::new();
        for (name, _) in TABLES {
            tables.push(Table::open(url, name).await?);
        }
        let texts = vec![String::new(); TABLES.len()];
        Ok(Self { tables, texts })
    }

    /// Sends what is long enough.
    pub(super) async fn send(&mut self) -> Result<()> {
        self.send_from(CHUNK_BYTES).await
    }

    async fn send_from(&mut self, bytes_min: usize) -> Result<()> {
        for (table, text) in self.tables.iter_mut().zip(&mut self.texts) {
            if text.len() < bytes_min {
                continue;
            }
            let chunk = Bytes::from(std::mem::take(text));
            if table.sender.send(chunk).await.is_err() {
                // The copy itself says why.
                (&mut table.copying).await??;
            }
        }
        Ok(())
    }

    /// Sends the rest and commits. Returns how many rows each table got.
    pub(super) async fn finish(mut self) -> Result<Vec<u64>> {
        self.send_from(1).await?;
        let mut counts = Vec::new();
        for ((name, _), table) in TABLES.iter().zip(self.tables) {
            drop(table.sender);
            let copied = table.copying.await?;
            counts.push(copied.with_context(|| format!("cannot fill {name}"))?);
        }
        Ok(counts)
    }
}

impl Table {
    async fn open(url: &str, name: &str) -> Result<Self> {
        let client = super::connect(url).await?;
        let text = format!("COPY {name} FROM STDIN");
        let (sender, mut receiver) = channel::<Bytes>(WAITING_MAX);
        let copying = tokio::spawn(async move {
            let sink = client.copy_in::<_, Bytes>(&text).await?;
            let mut sink = std::pin::pin!(sink);
            while let Some(chunk) = receiver.recv().await {
                sink.feed(chunk).await?;
            }
            Ok(sink.as_mut().finish().await?)
        });
        Ok(Self { sender, copying })
    }
}
