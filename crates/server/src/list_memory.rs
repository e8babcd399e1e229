//! Memory for pages of lists, and for the tasks of a claim. The right `read` is enough to ask for a page, and each of its
//! items may have a payload of a megabyte.
//!
//! ```text
//! memory for the largest page ─▶ read up to its bytes ─▶ written item by item ─▶ memory for its text, until it was sent
//! ```
//!
//! Memory is taken before the page is read, so that a request that waits for it holds nothing. Payloads stay text until their
//! item is written; only one of a page is there as a value, which is many times as large.

use std::cell::Cell;
use std::time::Duration;

use axum::response::Response;
use semel_engine::commands::answer_task::ClaimMemory;
use semel_engine::memory::Portion;
use semel_store::listed::PAGE_BYTES_MAX;
use serde::{Serialize, Serializer};

use crate::answer;
use crate::app::App;
use crate::body::overloaded;
use crate::error::ApiError;
use crate::places::FairPlace;

/// How many times the payloads of a page are there at once: as rows, as texts and as the body, with space for its last
/// item.
const COPIES: usize = 4;

/// The memory of one page while it is made.
const PAGE_MEMORY: usize = COPIES * PAGE_BYTES_MAX;

/// A text of no more bytes takes no memory while it is sent.
const FREE_BYTES: usize = 64 << 10;

/// How long a reader waits for memory.
const PATIENCE: Duration = Duration::from_secs(5);

/// The memory of one page, from before it is read until it was sent.
#[derive(Debug)]
pub(crate) struct ListMemory {
    portion: Portion,
    /// One of the pages that its namespace may have at once. A claim has none.
    place: Option<FairPlace>,
}

impl ListMemory {
    /// Memory for the largest page that there may be.
    pub(crate) async fn take(app: &App, namespace_id: i32) -> Result<Self, ApiError> {
        let budget = &app.options.body_budget;
        let place = budget.list_places.wait(namespace_id, PATIENCE).await;
        let place = Some(place.ok_or_else(overloaded)?);
        let portion = budget.listed.take_within(PAGE_MEMORY, PATIENCE).await;
        let portion = portion.ok_or_else(overloaded)?;
        Ok(Self { portion, place })
    }

    /// The memory that a claim of tasks takes before it is made.
    pub(crate) fn of_claim(app: &App) -> ClaimMemory<'_> {
        ClaimMemory {
            budget: &app.options.body_budget.claimed,
            bytes: PAGE_MEMORY,
            patience: PATIENCE,
        }
    }

    /// The memory that a claim took.
    pub(crate) fn of_portion(portion: Portion) -> Self {
        Self {
            portion,
            place: None,
        }
    }

    /// Answers 200 with JSON, and keeps as much as that takes until it was sent.
    pub(crate) fn answer(self, text: String) -> Response {
        let Self { mut portion, place } = self;
        portion.shrink_to(text.len());
        let kept = (text.len() > FREE_BYTES).then_some((portion, place));
        answer::with_memory(text, kept)
    }
}

/// Items that are made one by one while they are written, once: no two of them are there at the same time.
pub(crate) struct OneByOne<I>(Cell<Option<I>>);

impl<I> OneByOne<I> {
    pub(crate) fn new(items: I) -> Self {
        Self(Cell::new(Some(items)))
    }
}

impl<I: Iterator<Item: Serialize>> Serialize for OneByOne<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.take().into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use semel_engine::Budget;

    use super::*;

    #[test]
    fn no_two_items_are_there_at_once() {
        #[derive(Clone)]
        struct Item(Rc<()>);
        impl Serialize for Item {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                // The test has one, the iterator's closure another, and this is the third.
                serializer.serialize_u64(Rc::strong_count(&self.0) as u64)
            }
        }
        let known = Rc::new(());
        let made = known.clone();

        let items = OneByOne::new((0..3).map(move |_| Item(made.clone())));
        let text = serde_json::to_string(&items).unwrap();

        assert_eq!(text, "[3,3,3]");
        assert_eq!(Rc::strong_count(&known), 1);
    }

    #[tokio::test]
    async fn a_page_keeps_what_its_text_takes_until_it_was_sent() {
        let budget = Budget::of_bytes(PAGE_MEMORY);
        let take = || ListMemory::of_portion(budget.try_take(PAGE_MEMORY).unwrap());

        let small = take().answer("[]".to_owned());
        let is_whole = budget.is_whole();
        let large = take().answer("x".repeat(FREE_BYTES + 1));
        let beside = budget.try_take(PAGE_MEMORY - 2 * FREE_BYTES);
        let more = budget.try_take(2 * FREE_BYTES);
        drop((large, beside));

        assert!(is_whole, "a small page holds nothing");
        assert!(more.is_none(), "a large page holds its text");
        assert!(budget.is_whole());
        drop(small);
    }
}
