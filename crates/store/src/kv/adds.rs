//! Additions to one entry that share a commit: made as one, each with its own result.
//!
//! A hot counter would otherwise be written once for each run of the batch, and leave as many versions
//! of its row. The sums up to each addition give the results: what the entry holds afterwards, less
//! what the later ones added.
//!
//! Made together, additions either all succeed or change nothing. Then they are made one by one, so that the one that
//! fails (the entry is no number, or has become too long for one) fails alone.

use semel_model::kv::Verb;
use serde_json::json;
use tokio_postgres::Error;
use tokio_postgres::types::ToSql;

use super::{Placed, column, slot};
use crate::writer::connection::PreparedClient;

/// The largest number that an entry may hold before something is added: fifteen digits.
const NUMBER_MAX: i128 = 999_999_999_999_999;

/// `$6` additions, which make `$4` together. Nothing is changed and nothing returns unless each of
/// them would succeed: the entry is a whole number from `$7` to `$8`, or there is none.
pub(crate) const ADD_TOGETHER: &str = "
    INSERT INTO kv (slot, namespace_id, entry, value, version, expires_at)
    VALUES ($1, $2, $3, to_json($4::int8), $6::int8, moment() + make_interval(secs => $5))
        ON CONFLICT (slot, namespace_id, entry) DO UPDATE
       SET value = CASE WHEN kv.expires_at <= moment() THEN EXCLUDED.value
                        ELSE to_json(kv.value::text::int8 + $4) END,
           expires_at = EXCLUDED.expires_at, version = kv.version + EXCLUDED.version
     WHERE CASE WHEN kv.expires_at <= moment() THEN true
                WHEN kv.value::text ~ '^-?[0-9]{1,15}$'
                THEN kv.value::text::int8 BETWEEN $7::int8 AND $8::int8
                ELSE false END
 RETURNING value::text::int8";

/// Additions to one entry, in the order of the batch.
pub(crate) struct Additions<'a> {
    pub(super) placed: Vec<Placed<'a>>,
    /// What they make together, up to each of them.
    sums: Vec<i64>,
    /// The time that the last one gives the entry.
    ttl_secs: Option<f64>,
    /// What the entry may hold before.
    from: i64,
    to: i64,
}

impl<'a> Additions<'a> {
    /// Nothing where they are not additions to one entry, or could fail with an entry that holds nothing.
    pub(super) fn of(placed: &[Placed<'a>]) -> Option<Self> {
        let (mut sum, mut least, mut most) = (0_i128, 0, 0);
        let mut sums = Vec::with_capacity(placed.len());
        let mut ttl_secs = None;
        for one in placed {
            let Verb::Add { by, ttl } = &one.write.operation.verb else {
                return None;
            };
            sum += i128::from(*by);
            least = least.min(sum);
            most = most.max(sum);
            sums.push(i64::try_from(sum).ok()?);
            ttl_secs = ttl.map(semel_model::Span::as_secs_f64);
        }
        let (from, to) = (least.abs() - NUMBER_MAX, NUMBER_MAX - most);
        if from > 0 || to < 0 {
            return None;
        }
        Some(Self {
            placed: placed.to_vec(),
            sums,
            ttl_secs,
            from: i64::try_from(from).ok()?,
            to: i64::try_from(to).ok()?,
        })
    }

    /// Makes them inside the open transaction; gives the result of each, or nothing where they have to
    /// be made one by one.
    pub(super) async fn perform(
        &self,
        ready: PreparedClient<'_>,
    ) -> Result<Option<Vec<serde_json::Value>>, Error> {
        let (Some(first), Some(total)) = (self.placed.first(), self.sums.last()) else {
            return Ok(Some(Vec::new()));
        };
        let (namespace, entry) = (first.item.namespace_id, &first.write.operation.entry);
        let slot = column(slot(namespace, entry));
        let count = self.sums.len() as i64;
        let values: [&(dyn ToSql + Sync); 8] = [
            &slot,
            &namespace,
            entry,
            total,
            &self.ttl_secs,
            &count,
            &self.from,
            &self.to,
        ];
        let statement = ready.statement(ADD_TOGETHER);
        let row = ready.client.query_opt(statement, &values).await?;
        Ok(row.map(|row| {
            let before = row.get::<_, i64>(0) - total;
            let results = self.sums.iter().map(|sum| json!(before + sum));
            results.collect()
        }))
    }
}
