//! Tokens that a token or a person made in its own namespace, directly or through what it made.
//!
//! The maker is revoked first, which waits for what it is just making and lets it make nothing more. Then
//! the rest is revoked in rounds, until a round finds nothing: a token of one round may have made another
//! one while it was revoked.

use std::cmp::Reverse;

use deadpool_postgres::Transaction;
use semel_model::TokenId;
use tokio_postgres::types::ToSql;

use super::{REVOKE, TokenView, token_columns, view};
use crate::audit::{self, AuditEntry};
use crate::cell::{HomeCell, ReadError};

/// The most tokens that an answer lists of those that one token or person made.
pub const MADE_SHOWN_MAX: usize = 100;

/// The most rounds of one revocation. Another round is needed only for a token that was made during the last.
const ROUNDS_MAX: usize = 32;

const LIST: &str = concat!(
    "
    WITH RECURSIVE made AS (
        SELECT id FROM tokens WHERE namespace_id = $1 AND made_by = $2
        UNION
        SELECT t.id FROM tokens t JOIN made m ON t.made_by = m.id WHERE t.namespace_id = $1)
    SELECT ",
    token_columns!(),
    ",
           count(*) OVER () AS made_count
      FROM tokens
     WHERE id IN (SELECT id FROM made) AND revoked_at IS NULL AND expires_at > moment()
     ORDER BY created_at DESC, id DESC
     LIMIT $3"
);

const REVOKE_MADE: &str = concat!(
    "
    WITH RECURSIVE made AS (
        SELECT id FROM tokens WHERE namespace_id = $1 AND made_by = $2
        UNION
        SELECT t.id FROM tokens t JOIN made m ON t.made_by = m.id WHERE t.namespace_id = $1)
    UPDATE tokens SET revoked_at = moment(), sealed = NULL, sealed_until = NULL
     WHERE id IN (SELECT id FROM made) AND revoked_at IS NULL AND expires_at > moment()
 RETURNING ",
    token_columns!()
);

pub(crate) const STATEMENTS: &[&str] = &[LIST, REVOKE_MADE];

/// Tokens that one token or person made, and that work.
#[derive(Clone, Debug, Default)]
pub struct MadeTokens {
    /// The newest of them, [`MADE_SHOWN_MAX`] at most.
    pub newest: Vec<TokenView>,
    /// How many there are.
    pub count: u64,
}

/// The newest of some tokens, [`MADE_SHOWN_MAX`] at most.
pub fn newest(mut tokens: Vec<TokenView>) -> Vec<TokenView> {
    tokens.sort_by_key(|token| Reverse((token.created_at, token.id)));
    tokens.truncate(MADE_SHOWN_MAX);
    tokens
}

/// Lists the working tokens that a token or a person made.
pub async fn list(
    cell: HomeCell<'_>,
    namespace_id: i32,
    maker: TokenId,
) -> Result<MadeTokens, ReadError> {
    let client = cell.reader().await?;
    let limit = i64::try_from(MADE_SHOWN_MAX).unwrap_or(i64::MAX);
    let rows = client
        .query(LIST, &[&namespace_id, maker.as_uuid(), &limit])
        .await?;
    let count: i64 = rows.first().map_or(0, |row| row.get("made_count"));
    let newest: Result<Vec<TokenView>, ReadError> = rows.iter().map(view).collect();
    Ok(MadeTokens {
        newest: newest?,
        count: count.unsigned_abs(),
    })
}

/// Revokes a token and the tokens that it made. Returns those that it made and that worked until now.
pub async fn revoke(
    cell: HomeCell<'_>,
    namespace_id: i32,
    id: TokenId,
    act: &AuditEntry,
) -> Result<Vec<TokenView>, ReadError> {
    revoke_by(REVOKE, cell, namespace_id, id, act).await
}

/// The same for the statement that revokes one token or one person.
pub(crate) async fn revoke_by(
    statement: &str,
    cell: HomeCell<'_>,
    namespace_id: i32,
    id: TokenId,
    act: &AuditEntry,
) -> Result<Vec<TokenView>, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let values: [&(dyn ToSql + Sync); 2] = [&namespace_id, id.as_uuid()];
    if tx.execute(statement, &values).await? > 0 {
        audit::append(&tx, act).await?;
    }
    let made = revoke_made(&tx, namespace_id, id, act).await?;
    tx.commit().await?;
    Ok(made)
}

/// Revokes what a token or a person made, who is revoked already in this transaction or before. `act` is
/// that revocation: each of these is recorded as an act of the same actor for the same reason.
async fn revoke_made(
    tx: &Transaction<'_>,
    namespace_id: i32,
    maker: TokenId,
    act: &AuditEntry,
) -> Result<Vec<TokenView>, ReadError> {
    let mut all = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let values: [&(dyn ToSql + Sync); 2] = [&namespace_id, maker.as_uuid()];
        let rows = tx.query(REVOKE_MADE, &values).await?;
        if rows.is_empty() {
            break;
        }
        let round: Result<Vec<TokenView>, ReadError> = rows.iter().map(view).collect();
        let round = round?;
        let acts: Vec<AuditEntry> = round
            .iter()
            .map(|token| {
                let subject = format!("{} {}", token.name, token.id);
                act.followed_by(namespace_id, "token.revoke", &subject)
            })
            .collect();
        audit::append_all(tx, &acts).await?;
        all.extend(round);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use semel_model::{Networks, Rights};
    use uuid::Uuid;

    use super::*;

    fn token(number: u32) -> TokenView {
        let created_at = Timestamp::from_second(i64::from(number)).unwrap();
        TokenView {
            id: TokenId::from_uuid(Uuid::from_u128(u128::from(number))),
            name: format!("token {number}"),
            digest: Vec::new(),
            created_at,
            expires_at: created_at,
            revoked_at: None,
            groups: Vec::new(),
            rights: Rights::ALL,
            works: true,
            role: None,
            last_used_at: None,
            networks: Networks::default(),
            queues: Vec::new(),
            made_by: None,
            derived: true,
            ends_at: created_at,
        }
    }

    #[test]
    fn of_more_tokens_than_an_answer_lists_the_newest_come_first_and_the_oldest_are_left_out() {
        let listed = newest((1..=150).map(token).collect());

        assert_eq!(listed.len(), MADE_SHOWN_MAX);
        assert_eq!(listed[0].name, "token 150");
        assert_eq!(listed[MADE_SHOWN_MAX - 1].name, "token 51");
    }
}
