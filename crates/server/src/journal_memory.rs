//! Memory for whole journals while they are read and shown. One may be many megabytes, and the right `read` is
//! enough to ask for it: so readers share a part of the memory, and wait or are refused where it is used up.

use std::time::Duration;

use jiff::civil::Date;
use semel_engine::Budget;
use semel_engine::memory::{Portion, parsed_bytes};
use semel_model::RunId;
use semel_store::journal;

use crate::app::App;
use crate::body::overloaded;
use crate::error::ApiError;

/// A journal of no more bytes takes no share of the memory.
const FREE_BYTES: usize = 64 << 10;

/// How many times a journal is there at once: as rows, as lines and as the body, with some space between.
const COPIES: usize = 4;

/// The same of an archived run: its group of rows in the file, compressed and not, its text, its values, and the body.
const ARCHIVED_COPIES: usize = 12;

/// How many times the text of an answer is there at once beside its values while a page is made of it: as the answer, and
/// as the page.
const PAGE_COPIES: usize = 2;

/// How long a reader waits for memory.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Memory for the journal of a run; none where it is small. To be kept for as long as anything of the journal is.
pub(crate) async fn room_for_journal(
    app: &App,
    partition_date: Date,
    run: RunId,
) -> Result<Option<Portion>, ApiError> {
    let bytes = journal::size(app.cell().of(run), partition_date, run).await?;
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    room(&app.options.body_budget.shown, bytes, PATIENCE).await
}

/// Memory for a group of rows of the archive, with what the run in it becomes. To be kept as that of a journal.
pub(crate) async fn room_for_archived(
    budget: &Budget,
    bytes: usize,
) -> Result<Option<Portion>, ApiError> {
    let needed = bytes.saturating_mul(ARCHIVED_COPIES);
    room_of(budget, (bytes, needed), PATIENCE).await
}

/// Memory for the values and the text of a page that is made of an answer. To be kept until the page was sent.
pub(crate) async fn room_for_page(
    budget: &Budget,
    answer: &[u8],
    patience: Duration,
) -> Result<Option<Portion>, ApiError> {
    let texts = answer.len().saturating_mul(PAGE_COPIES);
    let needed = parsed_bytes(answer).saturating_add(texts);
    room_of(budget, (answer.len(), needed), patience).await
}

async fn room(
    budget: &Budget,
    bytes: usize,
    patience: Duration,
) -> Result<Option<Portion>, ApiError> {
    let needed = bytes.saturating_mul(COPIES);
    room_of(budget, (bytes, needed), patience).await
}

/// None for a text that is small; otherwise what it needs.
async fn room_of(
    budget: &Budget,
    (bytes, needed): (usize, usize),
    patience: Duration,
) -> Result<Option<Portion>, ApiError> {
    if bytes <= FREE_BYTES {
        return Ok(None);
    }
    let portion = budget.take_within(needed, patience);
    portion.await.map(Some).ok_or_else(overloaded)
}

#[cfg(test)]
mod tests {
    use semel_api::Code;

    use super::*;
    use crate::answer;

    #[tokio::test]
    async fn a_large_journal_is_shown_when_there_is_memory_and_a_small_one_always() {
        let budget = Budget::of_bytes(1 << 20);
        let soon = Duration::from_millis(1);

        let first = room(&budget, 10 << 20, soon).await.unwrap();
        assert!(first.is_some(), "one that takes more than all has all");
        let second = room(&budget, FREE_BYTES + 1, soon).await;
        let small = room(&budget, FREE_BYTES, soon).await;
        let shown = answer::with_memory("{}".to_owned(), first);
        let third = room(&budget, FREE_BYTES + 1, soon).await;
        drop(shown);
        let fourth = room(&budget, FREE_BYTES + 1, soon).await;

        for refused in [second, third] {
            let refused = refused.err().unwrap();
            assert_eq!(refused.problem().code(), Some(Code::Overloaded));
        }
        assert!(matches!(small, Ok(None)));
        assert!(matches!(fourth, Ok(Some(_))), "the first was sent");
    }

    #[tokio::test]
    async fn what_is_read_from_the_archive_and_what_becomes_a_page_take_memory_too() {
        let budget = Budget::of_bytes(1 << 20);
        let soon = Duration::from_millis(1);
        let large = format!("[{}]", vec!["\"x\""; FREE_BYTES].join(","));

        let page = room_for_page(&budget, large.as_bytes(), soon).await;
        let other = room_for_page(&budget, large.as_bytes(), soon).await;
        let small = room_for_page(&budget, b"{}", soon).await;
        drop(page.unwrap().expect("what it takes"));
        let archived = room_for_archived(&budget, FREE_BYTES + 1).await;
        let beside = room(&budget, FREE_BYTES + 1, soon).await;

        assert_eq!(
            other.err().unwrap().problem().code(),
            Some(Code::Overloaded)
        );
        assert!(matches!(small, Ok(None)));
        assert!(matches!(archived, Ok(Some(_))));
        assert!(beside.is_err(), "twelve times as much is taken");
    }
}
