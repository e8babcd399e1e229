//! The `sign_ins` and `sign_in_codes` tables: who is signed in to the console, and the codes that
//! people sign in with. `people` makes and renews the sign-ins of an identity provider.
//!
//! Both keep digests of what a browser holds. A code is removed by the statement that makes its
//! sign-in, so that it works once; a sign-in works while its token does.

use jiff::Timestamp;
use semel_model::{Label, Networks, Rights, Span, TokenId};
use tokio_postgres::types::ToSql;

use crate::audit::{self, AuditEntry};
use crate::cell::{HomeCell, ReadError};
use crate::token_limits::{read_networks, read_queues};

const ADD_CODE: &str = "
    INSERT INTO sign_in_codes (digest, token_id, expires_at)
    VALUES ($1, $2, moment() + make_interval(secs => $3))
 RETURNING expires_at";

const FIND_CODE: &str = "
    SELECT t.namespace_id, n.name, t.name, t.id, t.networks::text[]
      FROM sign_in_codes c
      JOIN tokens t ON t.id = c.token_id
      JOIN namespaces n ON n.id = t.namespace_id
     WHERE c.digest = $1 AND c.expires_at > moment()
       AND t.revoked_at IS NULL AND t.expires_at > moment()";

const EXCHANGE: &str = "
    WITH used AS (
        DELETE FROM sign_in_codes WHERE digest = $1 RETURNING token_id, expires_at)
    INSERT INTO sign_ins (digest, token_id, expires_at)
    SELECT $2::bytea, u.token_id, moment() + make_interval(secs => $3)
      FROM used u
      JOIN tokens t ON t.id = u.token_id
     WHERE u.expires_at > moment() AND t.revoked_at IS NULL AND t.expires_at > moment()";

/// A person who signed in through an identity provider has a row of `tokens` in each namespace that they
/// may enter: that of the namespace they ask for is taken, or the one that they entered by.
const FIND: &str = "
    SELECT t.namespace_id, n.name, t.name, t.expires_at, t.groups, t.rights, t.id,
           s.seen_at < moment() - interval '1 minute', t.subject,
           t.kind = 'person' AND s.expires_at < moment() + make_interval(secs => $4),
           ARRAY(SELECT o.name
                   FROM tokens p
                   JOIN namespaces o ON o.id = p.namespace_id
                  WHERE p.kind = 'person' AND p.issuer = h.issuer AND p.subject = h.subject
                    AND p.revoked_at IS NULL AND p.expires_at > moment()
                  ORDER BY o.name
                  LIMIT 100),
           t.networks::text[], t.queues
      FROM sign_ins s
      JOIN tokens h ON h.id = s.token_id
      JOIN tokens t ON t.id = h.id
                    OR (t.kind = 'person' AND t.issuer = h.issuer AND t.subject = h.subject)
      JOIN namespaces n ON n.id = t.namespace_id
     WHERE s.digest = $1 AND s.expires_at > moment()
       AND s.seen_at > moment() - make_interval(secs => $2)
       AND h.revoked_at IS NULL AND h.expires_at > moment()
       AND t.revoked_at IS NULL AND t.expires_at > moment()
     ORDER BY n.name = $3 DESC, t.id = h.id DESC
     LIMIT 1";

/// Once a minute for each sign-in.
const NOTE: &str = "
    UPDATE sign_ins SET seen_at = moment()
     WHERE digest = $1 AND seen_at < moment() - interval '1 minute'";

const END: &str = "DELETE FROM sign_ins WHERE digest = $1";

/// Of the token, or of the person in every namespace.
const END_EVERYWHERE: &str = "
    DELETE FROM sign_ins s
     USING tokens t, tokens h
     WHERE h.id = $1 AND t.id = s.token_id
       AND (t.id = h.id OR (h.kind = 'person' AND t.kind = 'person' AND t.issuer = h.issuer
                            AND t.subject = h.subject))
 RETURNING s.digest";

const END_CODES: &str = "DELETE FROM sign_in_codes WHERE token_id = $1";

const FORGET_CODES: &str = "
    DELETE FROM sign_in_codes
     WHERE digest IN (SELECT digest FROM sign_in_codes WHERE expires_at < (SELECT moment())
                       ORDER BY expires_at LIMIT $1)";

const FORGET_LOGOUTS: &str = "
    DELETE FROM logout_tokens
     WHERE digest IN (SELECT digest FROM logout_tokens WHERE expires_at < (SELECT moment())
                       ORDER BY expires_at LIMIT $1)";

const FORGET: &str = "
    DELETE FROM sign_ins
     WHERE digest IN (SELECT digest FROM sign_ins WHERE expires_at < (SELECT moment())
                       ORDER BY expires_at LIMIT $1)";

pub(crate) const STATEMENTS: &[&str] = &[
    ADD_CODE,
    FIND_CODE,
    EXCHANGE,
    FIND,
    NOTE,
    END,
    END_EVERYWHERE,
    END_CODES,
    FORGET_CODES,
    FORGET_LOGOUTS,
    FORGET,
];

/// The token that a code was made with.
#[derive(Clone, Debug)]
pub struct SignInCodeRow {
    /// Its namespace, short.
    pub namespace_id: i32,
    /// Its namespace.
    pub namespace: String,
    /// What its owner calls it.
    pub name: String,
    /// What it is known by.
    pub token: TokenId,
    /// Where it may be used from.
    pub networks: Networks,
}

/// A sign-in that works now, with the token that it stands for.
#[derive(Clone, Debug)]
pub struct SignInRow {
    /// The one namespace that it opens, short.
    pub namespace_id: i32,
    /// That namespace.
    pub namespace: String,
    /// What the token's owner calls it.
    pub name: String,
    /// When the token stops working.
    pub expires_at: Timestamp,
    /// The groups that the token's owner belongs to.
    pub groups: Vec<String>,
    /// What the token may do.
    pub rights: Rights,
    /// What the token is known by.
    pub token: TokenId,
    /// Whether its use has to be noted, because it was noted long ago.
    pub use_is_old: bool,
    /// What an identity provider knows the person by, where one signed them in.
    pub subject: Option<String>,
    /// Whether the provider has to name the person's groups again before long.
    pub is_renewal_due: bool,
    /// The namespaces that the person may enter, by name; none for a token, which opens one. 100 at most.
    pub namespaces: Vec<String>,
    /// Where the token may be used from, and so the sign-in.
    pub networks: Networks,
    /// The queues whose tasks the token may work on; none listed is every queue.
    pub queues: Vec<Label>,
}

/// How long a sign-in lasts, and for whom it is looked up.
#[derive(Clone, Copy, Debug)]
pub struct SignInTerms<'a> {
    /// How long it works unused.
    pub idle: Span,
    /// How long before its end it has to be renewed, where an identity provider made it.
    pub renewal: Span,
    /// The namespace that is asked for; empty for any.
    pub namespace: &'a str,
}

/// Stores the digest of a code, which works once and for so long. Returns when it expires.
pub async fn add_code(
    cell: HomeCell<'_>,
    digest: &[u8],
    token: TokenId,
    lifetime: Span,
) -> Result<Timestamp, ReadError> {
    let secs = lifetime.as_secs_f64();
    let client = cell.reader().await?;
    let values: [&(dyn ToSql + Sync); 3] = [&digest, token.as_uuid(), &secs];
    Ok(client.query_one(ADD_CODE, &values).await?.get(0))
}

/// Looks a code up that works now, without using it up.
pub async fn find_code(
    cell: HomeCell<'_>,
    digest: &[u8],
) -> Result<Option<SignInCodeRow>, ReadError> {
    let client = cell.reader().await?;
    let Some(row) = client.query_opt(FIND_CODE, &[&digest]).await? else {
        return Ok(None);
    };
    Ok(Some(SignInCodeRow {
        namespace_id: row.get(0),
        namespace: row.get(1),
        name: row.get(2),
        token: TokenId::from_uuid(row.get(3)),
        networks: read_networks(&row, 4)?,
    }))
}

/// Uses a code up and makes a sign-in of it. False where the code is unknown, used or expired, or its
/// token no longer works.
pub async fn exchange(
    cell: HomeCell<'_>,
    code: &[u8],
    sign_in: &[u8],
    lifetime: Span,
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let secs = lifetime.as_secs_f64();
    let values: [&(dyn ToSql + Sync); 3] = [&code, &sign_in, &secs];
    Ok(audit::execute(cell, EXCHANGE, &values, act).await? > 0)
}

/// Looks a sign-in up that works now and was used not too long ago.
pub async fn find(
    cell: HomeCell<'_>,
    digest: &[u8],
    terms: SignInTerms<'_>,
) -> Result<Option<SignInRow>, ReadError> {
    let idle = terms.idle.as_secs_f64();
    let renewal = terms.renewal.as_secs_f64();
    let client = cell.reader().await?;
    let values: [&(dyn ToSql + Sync); 4] = [&digest, &idle, &terms.namespace, &renewal];
    let Some(row) = client.query_opt(FIND, &values).await? else {
        return Ok(None);
    };
    let words: Vec<&str> = row.get(5);
    Ok(Some(SignInRow {
        namespace_id: row.get(0),
        namespace: row.get(1),
        name: row.get(2),
        expires_at: row.get(3),
        groups: row.get(4),
        rights: Rights::of_words(words),
        token: TokenId::from_uuid(row.get(6)),
        use_is_old: row.get(7),
        subject: row.get(8),
        is_renewal_due: row.get(9),
        namespaces: row.get(10),
        networks: read_networks(&row, 11)?,
        queues: read_queues(&row, 12)?,
    }))
}

/// Notes that a sign-in is used.
pub async fn note_use(cell: HomeCell<'_>, digest: &[u8]) -> Result<(), ReadError> {
    cell.reader().await?.execute(NOTE, &[&digest]).await?;
    Ok(())
}

/// Ends a sign-in.
pub async fn end(cell: HomeCell<'_>, digest: &[u8]) -> Result<(), ReadError> {
    cell.reader().await?.execute(END, &[&digest]).await?;
    Ok(())
}

/// Ends every sign-in of a token or a person, and the codes that would make one; the act is recorded in the
/// same commit. Returns what was stored of the sign-ins.
pub async fn end_everywhere(
    cell: HomeCell<'_>,
    token: TokenId,
    act: &AuditEntry,
) -> Result<Vec<Vec<u8>>, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let ended = tx.query(END_EVERYWHERE, &[token.as_uuid()]).await?;
    tx.execute(END_CODES, &[token.as_uuid()]).await?;
    audit::append(&tx, act).await?;
    tx.commit().await?;
    Ok(ended.iter().map(|row| row.get(0)).collect())
}

/// Removes what has expired.
pub(crate) async fn forget(cell: HomeCell<'_>, limit: i64) -> Result<u64, ReadError> {
    let client = cell.reader().await?;
    let codes = client.execute(FORGET_CODES, &[&limit]).await?;
    let logouts = client.execute(FORGET_LOGOUTS, &[&limit]).await?;
    Ok(codes + logouts + client.execute(FORGET, &[&limit]).await?)
}
