//! The `refused_deliveries` table: deliveries whose key could not be determined.

use semel_model::storable::without_zero;

use crate::cell::{Cell, ReadError};

const APPEND: &str = "
    INSERT INTO refused_deliveries (namespace_id, flow, code, message) VALUES ($1, $2, $3, left($4, 500))";

pub(crate) const STATEMENTS: &[&str] = &[APPEND];

/// Records a refusal.
pub async fn append(
    cell: &Cell,
    namespace_id: i32,
    flow: &str,
    code: &str,
    message: &str,
) -> Result<(), ReadError> {
    // It may quote what was sent.
    let message = without_zero(message);
    let client = cell.reader().await?;
    client
        .execute(APPEND, &[&namespace_id, &flow, &code, &message])
        .await?;
    Ok(())
}
