//! Pages of lists. A page begins where the one before ended, by position and never by number, so
//! that rows that come in between are neither lost nor listed twice.
//!
//! A filter that no index answers is applied to a limited number of rows. A page then may have fewer
//! items than were asked for, and still be followed by another: it says how far it looked. So may a page of items with
//! large payloads, which ends after a number of bytes.

use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

/// The time and the identity of an item, by which its list is ordered.
pub type Position = (Timestamp, Uuid);

/// A position after every item, where a list that goes back in time begins.
pub(crate) const NEWEST: Position = (Timestamp::MAX, Uuid::max());

/// A position before every item, where a list that goes forward in time begins.
pub(crate) const OLDEST: Position = (Timestamp::UNIX_EPOCH, Uuid::nil());

/// How many bytes the rows of one page have, beyond its first item.
pub const PAGE_BYTES_MAX: usize = 1 << 20;

/// How many rows one statement looks at for a filter that no index answers.
pub(crate) const SEARCH_MAX: i64 = 5_000;

/// One page of a list.
#[derive(Clone, Debug)]
pub struct Listed<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where the next page begins; nothing where this is the last.
    pub next: Option<Position>,
}

impl<T> Listed<T> {
    /// A list that has all there is.
    pub fn whole(items: Vec<T>) -> Self {
        Self { items, next: None }
    }

    /// The rows of a statement that reads no more than `limit`: a full page may have a successor.
    pub(crate) fn read(
        rows: &[Row],
        limit: u16,
        read: impl Fn(&Row) -> T,
        at: impl Fn(&T) -> Position,
    ) -> Self {
        let items: Vec<T> = rows.iter().map(read).collect();
        let last = items.last().filter(|_| items.len() == usize::from(limit));
        Self {
            next: last.map(at),
            items,
        }
    }

    /// The same page; where rows were left because of their bytes, the next one begins behind its last item.
    pub(crate) fn cut_if(self, is_cut: bool, at: impl Fn(&T) -> Position) -> Self {
        match is_cut {
            true => Self {
                next: self.items.last().map(at),
                items: self.items,
            },
            false => self,
        }
    }

    /// The rows of a statement that [`searched!`] made. Every row ends with where the search came to
    /// and how many rows it looked at; one row without an item says that none was found.
    pub(crate) fn read_searched(
        rows: &[Row],
        limit: u16,
        search: i64,
        read: impl Fn(&Row) -> T,
        at: impl Fn(&T) -> Position,
    ) -> Self {
        let found = rows
            .iter()
            .filter(|row| row.get::<_, Option<Uuid>>(0).is_some());
        let items: Vec<T> = found.map(read).collect();
        if let Some(last) = items.last().filter(|_| items.len() == usize::from(limit)) {
            return Self {
                next: Some(at(last)),
                items,
            };
        }
        let end = rows.first().and_then(|row| {
            let place = row.len() - 3;
            let count: i64 = row.get(place + 2);
            (count >= search).then(|| (row.get(place), row.get(place + 1)))
        });
        Self { items, next: end }
    }
}

/// A statement that looks at a limited number of rows: `scan` reads their `at` and `id` and what the
/// filter needs, `select` reads the items of the rows `s` that pass, as many as `limit` says.
macro_rules! searched {
    ($scan:expr, $select:expr, $limit:literal) => {
        concat!(
            "
    WITH scanned AS MATERIALIZED (",
            $scan,
            "),
    reached AS MATERIALIZED (
        SELECT at, id, (SELECT count(*) FROM scanned) AS count FROM scanned ORDER BY at, id LIMIT 1)
    SELECT v.*, e.at, e.id, e.count
      FROM reached e
      LEFT JOIN (",
            $select,
            "
              ORDER BY s.at DESC, s.id DESC
              LIMIT ",
            $limit,
            ") AS v ON true"
        )
    };
}
pub(crate) use searched;
