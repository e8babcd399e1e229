//! Runs that a batch finds again because the answer to its first submission was lost.
//!
//! What was written then is not what the second submission would write: something may have been
//! paused or resumed between the two, and the submission that took effect may be either. So the rows
//! say it, and no flag of this process does.

use std::collections::{HashMap, HashSet};

use semel_model::{ClaimId, RunId};
use tokio_postgres::Error;
use uuid::Uuid;

use super::super::Delivery;
use super::Known;
use crate::writer::connection::WriterConnection;

/// The runs whose first row has more than what came: the events of their first move.
pub(in super::super) const MOVED: &str = "
    SELECT r.id
      FROM unnest($1::uuid[]) AS t (id)
      JOIN runs r ON r.id = t.id
      JOIN journal j ON j.partition_date = r.partition_date AND j.run_id = r.id AND j.seq = 1
     WHERE json_array_length(j.events) > 1";

/// The claims of deliveries whose run was found again, and which must be decided from its journal:
/// their first effect was left out, or their run follows others, which only the journal knows.
pub(super) async fn list_undecided(
    connection: &mut WriterConnection,
    items: &[Delivery],
    known: &HashMap<ClaimId, Known>,
) -> Result<HashSet<ClaimId>, Error> {
    let mut undecided = HashSet::new();
    let mut planned = Vec::new();
    for item in items {
        let own = |found: &&Known| found.is_found && found.delivery == item.delivery;
        let Some(found) = known.get(&item.claim).filter(own) else {
            continue;
        };
        if found.met.run != RunId::derive(item.claim, 0) {
            undecided.insert(item.claim);
        } else if item.first_effect.is_some() {
            planned.push((item.claim, *found.met.run.as_uuid()));
        }
    }
    if planned.is_empty() {
        return Ok(undecided);
    }
    let runs: Vec<Uuid> = planned.iter().map(|(_, run)| *run).collect();
    let ready = connection.prepare(&[MOVED]).await?;
    let rows = ready.client.query(ready.statement(MOVED), &[&runs]).await?;
    let moved: HashSet<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    let left_out = planned.iter().filter(|(_, run)| !moved.contains(run));
    undecided.extend(left_out.map(|(claim, _)| *claim));
    Ok(undecided)
}
