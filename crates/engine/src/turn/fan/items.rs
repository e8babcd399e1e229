//! The items of a `foreach`: read in pieces, from the run's own values or from a resource.

use std::borrow::Cow;
use std::io::{self, BufReader, Read};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use semel_flow::Scope;
use semel_flow::release::Foreach;
use semel_model::storable::excerpt;
use semel_model::{Fault, ResourceRef, json};
use semel_store::child_runs::{self, NewChildRun};
use serde::de::{Deserializer as _, SeqAccess, Visitor};
use serde_json::Value;
use tokio::sync::mpsc;

use super::super::{Turn, TurnError};
use super::unsure;
use crate::decide;

/// How many items are recorded in one statement.
const CHUNK: usize = 500;

/// The most items of one list.
const ITEMS_MAX: u32 = 1_000_000;

/// How many pieces of a resource are read ahead.
const PIECES_AHEAD: usize = 4;

/// How much of an item's key people see; its identity is the whole of it.
const KEY_CHARS_SHOWN: usize = 200;

type Loaded = Result<Result<u32, Fault>, TurnError>;

impl Turn {
    /// Records the items of a list; returns how many the list has.
    pub(super) async fn load_items(&self, each: &Foreach) -> Loaded {
        let destinations = self.runtime.destinations(&self.release);
        let context = self.decide_context(&destinations);
        let scope = decide::scope(&self.state, &context);
        // A list that is there already is read in place, however long it is.
        let list = match each.items.find(&scope) {
            Some(list) => Cow::Borrowed(list),
            None => match each.items.eval(&scope) {
                Ok(list) => Cow::Owned(list),
                Err(error) => return Ok(Err(Fault::permanent(error.code(), error.to_string()))),
            },
        };
        let mut shelf = ItemBuffer {
            turn: self,
            each,
            scope: &scope,
            chunk: Vec::with_capacity(CHUNK),
            keys: Vec::new(),
            count: 0,
            loaded: child_runs::loaded(self.cell(), self.of())
                .await
                .map_err(unsure)?,
        };
        if let Value::Array(items) = &*list {
            for item in items {
                if let Err(fault) = shelf.put(item.clone()).await? {
                    return Ok(Err(fault));
                }
            }
            return shelf.end().await;
        }
        match resource_of(&list) {
            Some(resource) => shelf.read(resource).await,
            None => {
                let message = "`in` is no list: it takes a list, or a resource that holds one";
                Ok(Err(Fault::permanent("items-not-a-list", message)))
            }
        }
    }
}

/// Items to be recorded.
struct ItemBuffer<'a> {
    turn: &'a Turn,
    each: &'a Foreach,
    scope: &'a Scope<'a>,
    chunk: Vec<NewChildRun>,
    /// The keys of the chunk's items, where the run follows others.
    keys: Vec<String>,
    count: u32,
    /// How many were recorded by an earlier try.
    loaded: u32,
}

impl ItemBuffer<'_> {
    async fn put(&mut self, item: Value) -> Result<Result<(), Fault>, TurnError> {
        if self.count == ITEMS_MAX {
            let message = format!("the list has more than {ITEMS_MAX} items");
            return Ok(Err(Fault::permanent("items-too-many", message)));
        }
        if self.count < self.loaded {
            self.count += 1;
            return Ok(Ok(()));
        }
        let key = match self.key(&item) {
            Ok(key) => key,
            Err(fault) => return Ok(Err(fault)),
        };
        if json::is_too_deep(&item) {
            let message = format!("item {} nests deeper than 100 levels", self.count);
            return Ok(Err(Fault::permanent("value-unstorable", message)));
        }
        let step = self.turn.of().step;
        self.chunk.push(NewChildRun {
            index: i32::try_from(self.count).unwrap_or(i32::MAX),
            run: self.turn.run.child(step, &key),
            key: excerpt(&key, KEY_CHARS_SHOWN),
            item: item.to_string(),
            follows: None,
        });
        if self.turn.state.earlier.is_some() {
            self.keys.push(key);
        }
        self.count += 1;
        if self.chunk.len() == CHUNK {
            self.flush().await?;
        }
        Ok(Ok(()))
    }

    async fn flush(&mut self) -> Result<(), TurnError> {
        let mut chunk = std::mem::take(&mut self.chunk);
        let keys = std::mem::take(&mut self.keys);
        self.turn.follow(&mut chunk, &keys).await?;
        self.turn.reach("load.before").await;
        let (turn, id) = (self.turn, self.turn.release.namespace_id);
        let loaded = child_runs::load(turn.cell(), turn.of(), id, &chunk).await;
        self.turn.reach("load.after").await;
        loaded.map_err(unsure)
    }

    async fn end(mut self) -> Loaded {
        self.flush().await?;
        Ok(Ok(self.count))
    }

    /// What tells an item from the others.
    fn key(&self, item: &Value) -> Result<String, Fault> {
        let declared = self.each.key.as_ref();
        let declared = declared.filter(|_| !semel_model::SeededBug::ItemKeyIgnored.is_seeded());
        let Some(expr) = declared else {
            return Ok(self.count.to_string());
        };
        let scope = self.scope.clone().with(&self.each.name, item);
        let place = self.count;
        match expr.eval(&scope) {
            Ok(Value::String(text)) if !text.is_empty() => Ok(text),
            Ok(Value::Number(number)) => Ok(number.to_string()),
            Ok(_) => {
                let message = format!("the key of item {place} is no text and no number");
                Err(Fault::permanent("item-key", message))
            }
            Err(error) => {
                let message = format!("the key of item {place}: {error}");
                Err(Fault::permanent("item-key", message))
            }
        }
    }

    /// Takes the items from a resource, without ever holding all of them.
    async fn read(mut self, resource: ResourceRef) -> Loaded {
        let resources = self.turn.runtime.resources();
        let opened = resources.open(self.turn.release.namespace_id, resource);
        let opened = match opened.await {
            Ok(opened) => opened,
            Err(fault) if fault.retryable => return Err(TurnError::Unsure(fault.message)),
            Err(fault) => return Ok(Err(fault)),
        };
        let pieces = pieces_of(opened.stream);
        let (sender, mut items) = mpsc::channel(CHUNK);
        let reading = tokio::task::spawn_blocking(move || each_item(pieces, &sender));
        while let Some(item) = items.recv().await {
            if let Err(fault) = self.put(item).await? {
                return Ok(Err(fault));
            }
        }
        match reading.await {
            Ok(Ok(())) => self.end().await,
            Ok(Err(error)) if error.is_io() => Err(TurnError::Unsure(error.to_string())),
            Ok(Err(error)) => {
                let message = format!("the resource holds no list: {error}");
                Ok(Err(Fault::permanent("items-not-a-list", message)))
            }
            Err(error) => Err(TurnError::Unsure(error.to_string())),
        }
    }
}

/// The resource that a value names: `res://…`, or what a large result became.
fn resource_of(list: &Value) -> Option<ResourceRef> {
    let named = list.as_str().or_else(|| list.get("resource")?.as_str());
    named?.parse().ok()
}

/// The pieces of a stream, for a reader that may wait for them.
struct Pieces {
    from: mpsc::Receiver<io::Result<Bytes>>,
    current: Bytes,
}

fn pieces_of(mut stream: BoxStream<'static, io::Result<Bytes>>) -> Pieces {
    let (to, from) = mpsc::channel(PIECES_AHEAD);
    tokio::spawn(async move {
        while let Some(piece) = stream.next().await {
            if to.send(piece).await.is_err() {
                return;
            }
        }
    });
    Pieces {
        from,
        current: Bytes::new(),
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.from.blocking_recv() {
                Some(piece) => self.current = piece?,
                None => return Ok(0),
            }
        }
        let count = self.current.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.current.split_to(count));
        Ok(count)
    }
}

/// Sends each item of a JSON list, or of JSON values one after another.
fn each_item(from: impl Read, to: &mpsc::Sender<Value>) -> Result<(), serde_json::Error> {
    let mut from = BufReader::with_capacity(64 * 1024, from);
    match first_byte(&mut from)? {
        Some(b'[') => {
            let rest = io::Cursor::new([b'[']).chain(from);
            serde_json::Deserializer::from_reader(rest).deserialize_seq(Items { to })
        }
        Some(byte) => {
            let rest = io::Cursor::new([byte]).chain(from);
            for item in serde_json::Deserializer::from_reader(rest).into_iter() {
                if to.blocking_send(item?).is_err() {
                    break;
                }
            }
            Ok(())
        }
        None => Ok(()),
    }
}

/// The first byte that is no white space.
fn first_byte(from: &mut impl Read) -> Result<Option<u8>, serde_json::Error> {
    let mut byte = [0];
    loop {
        match from.read(&mut byte).map_err(serde_json::Error::io)? {
            0 => return Ok(None),
            _ if byte[0].is_ascii_whitespace() => {}
            _ => return Ok(Some(byte[0])),
        }
    }
}

struct Items<'a> {
    to: &'a mpsc::Sender<Value>,
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(item) = list.next_element()? {
            // The receiver is gone: the rest does not matter.
            if self.to.blocking_send(item).is_err() {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn items_of(text: &'static str) -> Result<Vec<Value>, String> {
        let (sender, mut items) = mpsc::channel(2);
        let reading = tokio::task::spawn_blocking(move || each_item(text.as_bytes(), &sender));
        let mut all = Vec::new();
        while let Some(item) = items.recv().await {
            all.push(item);
        }
        reading.await.unwrap().map_err(|error| error.to_string())?;
        Ok(all)
    }

    #[tokio::test]
    async fn a_list_and_lines_give_the_same_items() {
        let list = items_of(" [1, {\"a\": [2]}, \"x\"] ").await.unwrap();
        let lines = items_of("1\n{\"a\":[2]}\n\"x\"\n").await.unwrap();

        assert_eq!(list, lines);
        assert_eq!(list.len(), 3);
        assert_eq!(items_of("").await, Ok(vec![]));
        assert_eq!(items_of("[]").await, Ok(vec![]));
        assert!(items_of("[1, ").await.is_err());
    }
}
