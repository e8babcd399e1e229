//! Entries of `kv`: list and read.

use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use semel_api::Code;
use semel_api::types::{Entry, EntryFilter, Page};
use semel_store::kv::{self, EntryView, ListedUntil};
use serde::Deserialize;

use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::query::Params;

/// How many reads one request makes to find entries of a rare prefix.
const READS_MAX: usize = 10;

/// How many entries a page has at most, beyond those of its last read.
const PAGE_ENTRIES: usize = 500;

/// `GET /v1/kv`: an entry's name is no payload, its value is.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(filter): Params<EntryFilter>,
) -> Answered {
    let prefix = filter.prefix.as_deref().unwrap_or_default();
    let mut after = read_cursor(filter.cursor.as_deref())?;
    let mut items = Vec::new();
    let mut next = None;
    for _ in 0..READS_MAX {
        let cell = app.cell().every();
        let (found, reached) = kv::list(cell, caller.namespace_id, prefix, &after).await?;
        items.extend(found.into_iter().map(view));
        next = reached.as_ref().map(write_cursor);
        match reached {
            Some(reached) if items.len() < PAGE_ENTRIES => after = reached,
            Some(_) | None => break,
        }
    }
    items.sort_by(|one, other| one.entry.cmp(&other.entry));
    answer::ok(&Page { items, next })
}

/// `?entry=`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfEntry {
    entry: String,
}

/// `GET /v1/kv/entry?entry=`.
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Params(of): Params<OfEntry>,
) -> Answered {
    let cell = app.cell().of(kv::slot(caller.namespace_id, &of.entry));
    let found = kv::find(cell, caller.namespace_id, &of.entry).await?;
    let found = found.ok_or_else(|| ApiError::plain(Code::EntryNotFound))?;
    answer::ok(&view(found))
}

pub(crate) fn view(found: EntryView) -> Entry {
    Entry {
        entry: found.entry,
        value: found.value,
        version: found.version,
        expires_at: found.expires_at,
    }
}

fn write_cursor(reached: &ListedUntil) -> String {
    URL_SAFE_NO_PAD.encode(format!("{}:{}", reached.slot, reached.entry))
}

fn read_cursor(text: Option<&str>) -> Result<ListedUntil, ApiError> {
    let Some(text) = text else {
        return Ok(ListedUntil::default());
    };
    let read = URL_SAFE_NO_PAD.decode(text).ok();
    let read = read.and_then(|bytes| String::from_utf8(bytes).ok());
    let reached = read.as_deref().and_then(|text| {
        let (slot, entry) = text.split_once(':')?;
        let entry = entry.to_owned();
        let slot = slot.parse().ok()?;
        (!entry.contains('\0')).then_some(ListedUntil { slot, entry })
    });
    reached.ok_or_else(|| {
        ApiError::new(
            Code::QueryInvalid,
            "`cursor` is not one that this server gave",
        )
    })
}
