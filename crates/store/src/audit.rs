//! The `audit` table: what people did that changes what Semel would have done by itself.

use crate::cell::{Cell, ReadError};

const APPEND: &str = "
    INSERT INTO audit (namespace_id, actor, action, subject, reason) VALUES ($1, $2, $3, $4, $5)";

pub(crate) const STATEMENTS: &[&str] = &[APPEND];

/// What a person did.
#[derive(Clone, Debug)]
pub struct Act<'a> {
    /// Where.
    pub namespace_id: i32,
    /// The token's name.
    pub actor: &'a str,
    /// What was done, e.g. `doubt.settle`.
    pub action: &'a str,
    /// What it was done to.
    pub subject: &'a str,
    /// Why, in the person's words.
    pub reason: Option<&'a str>,
}

/// Writes an act down.
pub async fn append(cell: &Cell, act: &Act<'_>) -> Result<(), ReadError> {
    let Act {
        namespace_id,
        actor,
        action,
        subject,
        reason,
    } = act;
    let client = cell.reader().await?;
    client
        .execute(APPEND, &[namespace_id, actor, action, subject, reason])
        .await?;
    Ok(())
}
