//! Which of many keys had a run already.

use jiff::Timestamp;
use jiff::civil::Date;
use semel_model::run::RunState;
use semel_model::{ClaimId, RunId};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::cell::{EveryCell, ReadError};

/// Also of keys that have expired, as long as their row is there. A result is read only where it is
/// wanted and short.
pub(super) const KNOWN: &str = "
    SELECT c.id, c.run_id, r.state::text, r.accepted_at, r.partition_date,
           CASE WHEN $2 AND pg_column_size(r.result) <= $3 THEN r.result::text END
      FROM claims c
      LEFT JOIN runs r ON r.id = c.run_id
     WHERE c.id = ANY ($1) AND c.dropped_at IS NULL";

/// The most bytes of a result that is read, as the database stores it.
const RESULT_BYTES_MAX: i32 = 64 << 10;

/// A key that had a run.
#[derive(Clone, Debug)]
pub struct KnownKey {
    /// The claim.
    pub claim: ClaimId,
    /// The run that answers for the key, or the last that did.
    pub run: RunId,
    /// That run, while its record is kept.
    pub record: Option<KnownRun>,
}

/// The run of a key that is known.
#[derive(Clone, Debug)]
pub struct KnownRun {
    /// What the record says.
    pub state: RunState,
    /// When its delivery was accepted.
    pub accepted_at: Timestamp,
    /// Which partition holds its journal.
    pub partition_date: Date,
    /// Its result, as JSON text, where it was asked for and is short.
    pub result: Option<String>,
}

/// Lists those of several keys that had a run, whether they are held or have expired. A key that an
/// operator dropped is not known.
pub async fn list_known(
    cell: EveryCell<'_>,
    claims: &[ClaimId],
    with_results: bool,
) -> Result<Vec<KnownKey>, ReadError> {
    let ids: Vec<Uuid> = claims.iter().map(|claim| *claim.as_uuid()).collect();
    let client = cell.reader().await?;
    let rows = client
        .query(KNOWN, &[&ids, &with_results, &RESULT_BYTES_MAX])
        .await?;
    Ok(rows.iter().map(read_known).collect())
}

fn read_known(row: &Row) -> KnownKey {
    let state: Option<&str> = row.get(2);
    KnownKey {
        claim: ClaimId::from_uuid(row.get(0)),
        run: RunId::from_uuid(row.get(1)),
        record: state.map(|state| KnownRun {
            state: crate::runs::read_state(state),
            accepted_at: row.get(3),
            partition_date: row.get(4),
            result: row.get(5),
        }),
    }
}
