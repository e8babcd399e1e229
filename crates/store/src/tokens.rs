//! The `tokens` table: who may use the API, and what each may do there. Its rows for people who sign in
//! through an identity provider are written by `people`; nothing here shows, revokes or accepts them.
//!
//! A token that another token makes commits only while its maker works and has every right that it
//! gives, and works from no further networks and on no further queues than its maker: the condition
//! stands in the statement, so a maker that is revoked meanwhile makes nothing.
//!
//! A token that a person made, or that such a token made, works no longer than for a while after the
//! last sign-in of that person: each sign-in moves its end (`people`).

pub mod derived;
pub mod made;
pub mod shown;

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use semel_model::{Label, NamespaceName, Networks, Right, Rights, Role, Span, TokenId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::audit::{self, AuditEntry};
use crate::cell::{HomeCell, ReadError};
use crate::listed::NEWEST;
use crate::namespaces;
use crate::token_limits::{queue_words, read_networks, read_queues};

/// Who makes and revokes tokens with access to the database itself, for the record.
pub const DATABASE_OPERATOR: &str = "operator";

const INSERT: &str = "
    INSERT INTO tokens (id, namespace_id, name, digest, expires_at, groups, rights, role, networks,
                        queues, derived, made_by, sealed, sealed_until)
    VALUES ($1, $2, $3, $4, moment() + make_interval(secs => $5), $6, $7, $8, $9::text[]::cidr[], $10,
            false, $11, $12::bytea,
            CASE WHEN $12::bytea IS NOT NULL THEN moment() + make_interval(secs => $13) END)";

/// A token with a person behind its maker ends `$14` seconds after that person's last sign-in.
const MAKE: &str = "
    INSERT INTO tokens (id, namespace_id, name, digest, expires_at, groups, rights, role, networks,
                        queues, derived, made_by, person, ends_at, sealed, sealed_until)
    SELECT $1::uuid, m.namespace_id, $3::text, $4::bytea,
           least(moment() + make_interval(secs => $5),
                 (SELECT coalesce(p.last_used_at, p.created_at) FROM tokens p WHERE p.id = m.person)
                 + make_interval(secs => $14)),
           $6::text[], $7::text[], $9::text, $10::text[]::cidr[], $11::text[], false, $8::uuid, m.person,
           CASE WHEN m.person IS NOT NULL THEN moment() + make_interval(secs => $5) END, $12::bytea,
           CASE WHEN $12::bytea IS NOT NULL THEN moment() + make_interval(secs => $13) END
      FROM (SELECT namespace_id, coalesce(person, CASE kind WHEN 'person' THEN id END) AS person
              FROM tokens
             WHERE id = $8 AND namespace_id = $2 AND revoked_at IS NULL AND expires_at > moment()
               AND rights @> $7::text[] AND 'admin' = ANY(rights)
               AND (cardinality(networks) = 0
                    OR (cardinality($10::text[]) > 0
                        AND NOT EXISTS (SELECT FROM unnest($10::text[]::cidr[]) AS given (network)
                                         WHERE NOT given.network <<= ANY (networks))))
               AND (cardinality(queues) = 0 OR NOT 'work' = ANY($7::text[])
                    OR (cardinality($11::text[]) > 0 AND queues @> $11::text[]))
               FOR SHARE) m
        ON CONFLICT (id) DO NOTHING";

const REVOKE: &str = "
    UPDATE tokens SET revoked_at = moment(), sealed = NULL, sealed_until = NULL
     WHERE namespace_id = $1 AND id = $2 AND revoked_at IS NULL AND kind = 'api'";

/// People who have what they have through a group, among others.
const LAPSE: &str = "
    UPDATE tokens SET expires_at = moment()
     WHERE namespace_id = $1 AND kind = 'person' AND expires_at > moment() AND $2 = ANY(groups)";

const FIND: &str = "
    SELECT t.namespace_id, n.name, t.name, t.digest, t.expires_at, t.groups, t.rights,
           coalesce(t.last_used_at < moment() - interval '1 minute', true), t.networks::text[], t.queues,
           t.revoked_at IS NOT NULL, t.expires_at <= moment()
      FROM tokens t
      JOIN namespaces n ON n.id = t.namespace_id
     WHERE t.id = $1 AND t.kind = 'api'";

/// The columns of a token, in the order that [`view`] reads them.
macro_rules! token_columns {
    () => {
        "id, name, digest, created_at, expires_at, revoked_at, groups, rights,
           revoked_at IS NULL AND expires_at > moment(), role, last_used_at, networks::text[], queues,
           made_by, derived, coalesce(ends_at, expires_at)"
    };
}

pub(crate) use token_columns;

const VIEW: &str = concat!(
    "
    SELECT ",
    token_columns!(),
    "
      FROM tokens
     WHERE namespace_id = $1 AND id = $2 AND kind = 'api'"
);

macro_rules! listed {
    ($condition:literal) => {
        concat!(
            "
    SELECT ",
            token_columns!(),
            "
      FROM tokens
     WHERE namespace_id = $1 AND kind = 'api' AND (created_at, id) < ($2, $3)",
            $condition,
            "
     ORDER BY created_at DESC, id DESC
     LIMIT $4"
        )
    };
}

const ALL: &str = listed!("");
const WORKING: &str = listed!(" AND revoked_at IS NULL AND expires_at > moment()");

/// Once a minute for each token, however many servers and requests there are.
const NOTE_USE: &str = "
    UPDATE tokens SET last_used_at = moment()
     WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < moment() - interval '1 minute')";

const EXISTS: &str = "SELECT EXISTS (SELECT FROM tokens WHERE id = $1)";

const COUNT: &str = "
    SELECT count(*) FROM tokens
     WHERE revoked_at IS NULL AND expires_at > moment() AND kind = 'api'";

/// Of a token or a person, whether they may act or not.
const STANDING: &str = "
    SELECT revoked_at IS NOT NULL, expires_at <= moment(), $2 = ANY(rights)
      FROM tokens
     WHERE id = $1";

pub(crate) const STATEMENTS: &[&str] = &[
    INSERT, MAKE, REVOKE, LAPSE, FIND, VIEW, ALL, WORKING, NOTE_USE, EXISTS, COUNT, STANDING,
];

/// What a token or a person may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenStanding {
    /// It works, and has the right.
    Works,
    /// It does not exist.
    Absent,
    /// It was revoked.
    Revoked,
    /// Its time is over.
    Expired,
    /// It works, without the right.
    Lacks,
}

/// Says whether a token or a person has a right now, and why not.
pub async fn find_standing(
    cell: HomeCell<'_>,
    id: TokenId,
    right: Right,
) -> Result<TokenStanding, ReadError> {
    let client = cell.reader().await?;
    let right = right.as_str();
    let Some(row) = client.query_opt(STANDING, &[id.as_uuid(), &right]).await? else {
        return Ok(TokenStanding::Absent);
    };
    Ok(match (row.get(0), row.get(1), row.get(2)) {
        (true, _, _) => TokenStanding::Revoked,
        (false, true, _) => TokenStanding::Expired,
        (false, false, false) => TokenStanding::Lacks,
        (false, false, true) => TokenStanding::Works,
    })
}

/// A token to be stored.
#[derive(Clone, Debug)]
pub struct NewToken<'a> {
    /// What it is known by.
    pub id: TokenId,
    /// What its owner calls it.
    pub name: &'a str,
    /// SHA-256 of the secret part.
    pub digest: &'a [u8],
    /// How long it works.
    pub lifetime: Span,
    /// The groups that its owner belongs to.
    pub groups: &'a [String],
    /// The role that it is made with.
    pub role: Option<Role>,
    /// What it may do.
    pub rights: Rights,
    /// Where it may be used from.
    pub networks: Networks,
    /// The queues whose tasks it may work on; none listed is every queue.
    pub queues: &'a [Label],
}

/// The maker of a token, and the terms of its making.
#[derive(Clone, Copy, Debug)]
pub struct TokenTerms<'a> {
    /// The token or the person that makes it.
    pub maker: TokenId,
    /// The token itself, encrypted, where a repeat of the request may be shown it.
    pub sealed: Option<&'a [u8]>,
    /// How long a repeat may be shown it.
    pub sealed_for: Span,
    /// How long it works after the last sign-in of the person behind its maker, where there is one.
    pub person_lifetime: Span,
}

/// A token of the API, which may have ended.
#[derive(Clone, Debug)]
pub struct TokenRow {
    /// The one namespace that it opens, short.
    pub namespace_id: i32,
    /// That namespace.
    pub namespace: String,
    /// What its owner calls it.
    pub name: String,
    /// SHA-256 of the secret part.
    pub digest: Vec<u8>,
    /// When it stops working.
    pub expires_at: Timestamp,
    /// The groups that its owner belongs to.
    pub groups: Vec<String>,
    /// What it may do.
    pub rights: Rights,
    /// Whether its use has to be noted, because it was noted long ago.
    pub use_is_old: bool,
    /// Where it may be used from.
    pub networks: Networks,
    /// The queues whose tasks it may work on; none listed is every queue.
    pub queues: Vec<Label>,
}

/// Why a token that exists opens nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenEnd {
    /// It was revoked.
    Revoked,
    /// Its time is over.
    Expired,
}

/// A token as the API shows it, whether it works or not.
#[derive(Clone, Debug)]
pub struct TokenView {
    /// What it is known by.
    pub id: TokenId,
    /// What its owner calls it.
    pub name: String,
    /// SHA-256 of the secret part.
    pub digest: Vec<u8>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops working.
    pub expires_at: Timestamp,
    /// When an operator revoked it.
    pub revoked_at: Option<Timestamp>,
    /// The groups that its owner belongs to.
    pub groups: Vec<String>,
    /// What it may do.
    pub rights: Rights,
    /// Whether it works now.
    pub works: bool,
    /// The role that it was made with.
    pub role: Option<Role>,
    /// When it was last used, to the minute.
    pub last_used_at: Option<Timestamp>,
    /// Where it may be used from.
    pub networks: Networks,
    /// The queues whose tasks it may work on; none listed is every queue.
    pub queues: Vec<Label>,
    /// The token or the person that made it; none where access to the database did.
    pub made_by: Option<TokenId>,
    /// Whether a holder of the installation's secret key may be able to compute it.
    pub derived: bool,
    /// When it stops working at the latest. It may stop before, where a person made it.
    pub ends_at: Timestamp,
}

/// Stores a token's digest; creates its namespace unless it exists. The creation is recorded in the
/// same commit, without a name: its maker has access to the database itself, and no identity here.
pub async fn insert(
    cell: HomeCell<'_>,
    namespace: &NamespaceName,
    token: &NewToken<'_>,
) -> Result<(), ReadError> {
    let namespace_id = namespaces::ensure(cell, namespace).await?;
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    insert_first(&tx, namespace_id, token, None, DATABASE_OPERATOR).await?;
    tx.commit().await?;
    Ok(())
}

/// Makes a namespace and, because nobody could use it otherwise, its first token, on behalf of a token
/// of another one. False where there is a namespace of this name or a token of this identity, or where
/// the maker no longer may.
///
/// The act is recorded in the maker's namespace, and the token in the new one, in the same commit.
pub async fn make_namespace(
    cell: HomeCell<'_>,
    namespace: &NamespaceName,
    first: &NewToken<'_>,
    terms: TokenTerms<'_>,
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let made = namespaces::insert(&tx, namespace, terms.maker, first.id).await?;
    let Some(namespace_id) = made else {
        return Ok(false);
    };
    insert_first(&tx, namespace_id, first, Some(terms), act.actor()).await?;
    audit::append(&tx, act).await?;
    tx.commit().await?;
    Ok(true)
}

/// Stores a token's digest that no token of its namespace makes, and records that.
async fn insert_first(
    tx: &Transaction<'_>,
    namespace_id: i32,
    token: &NewToken<'_>,
    terms: Option<TokenTerms<'_>>,
    actor: &str,
) -> Result<(), ReadError> {
    let subject = format!("{} {}", token.name, token.id);
    let act = AuditEntry::new(namespace_id, actor, "token.create", &subject);
    let secs = token.lifetime.as_secs_f64();
    let rights = token.rights.words();
    let role = token.role.map(Role::as_str);
    let (networks, queues) = (token.networks.words(), queue_words(token.queues));
    let maker = terms.map(|terms| *terms.maker.as_uuid());
    let sealed = terms.and_then(|terms| terms.sealed);
    let sealed_secs = terms.map_or(0.0, |terms| terms.sealed_for.as_secs_f64());
    let values: [&(dyn ToSql + Sync); 13] = [
        token.id.as_uuid(),
        &namespace_id,
        &token.name,
        &token.digest,
        &secs,
        &token.groups,
        &rights,
        &role,
        &networks,
        &queues,
        &maker,
        &sealed,
        &sealed_secs,
    ];
    tx.execute(INSERT, &values).await?;
    audit::append(tx, &act).await?;
    Ok(())
}

/// Stores the digest of a token that another token of the namespace makes. False where there is one
/// of this identity already, or where its maker no longer works or lacks what it gives: a right, a
/// network or a queue.
pub async fn make(
    cell: HomeCell<'_>,
    namespace_id: i32,
    token: &NewToken<'_>,
    terms: TokenTerms<'_>,
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let secs = token.lifetime.as_secs_f64();
    let sealed_secs = terms.sealed_for.as_secs_f64();
    let person_secs = terms.person_lifetime.as_secs_f64();
    let rights = token.rights.words();
    let role = token.role.map(Role::as_str);
    let (networks, queues) = (token.networks.words(), queue_words(token.queues));
    let values: [&(dyn ToSql + Sync); 14] = [
        token.id.as_uuid(),
        &namespace_id,
        &token.name,
        &token.digest,
        &secs,
        &token.groups,
        &rights,
        terms.maker.as_uuid(),
        &role,
        &networks,
        &queues,
        &terms.sealed,
        &sealed_secs,
        &person_secs,
    ];
    Ok(audit::execute(cell, MAKE, &values, act).await? > 0)
}

/// Whether a token of any namespace has this identity.
pub async fn exists(cell: HomeCell<'_>, id: TokenId) -> Result<bool, ReadError> {
    let client = cell.reader().await?;
    Ok(client.query_one(EXISTS, &[id.as_uuid()]).await?.get(0))
}

/// Revokes a token. False where there is none of this identity that is not revoked.
pub async fn revoke(
    cell: HomeCell<'_>,
    namespace_id: i32,
    id: TokenId,
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let values: [&(dyn ToSql + Sync); 2] = [&namespace_id, id.as_uuid()];
    Ok(audit::execute(cell, REVOKE, &values, act).await? > 0)
}

/// Ends what the members of a group have who signed in through an identity provider: they sign in again.
pub(crate) async fn lapse(
    tx: &Transaction<'_>,
    namespace_id: i32,
    group: &str,
) -> Result<(), ReadError> {
    tx.execute(LAPSE, &[&namespace_id, &group]).await?;
    Ok(())
}

/// Looks a token up that works now.
pub async fn find(cell: HomeCell<'_>, id: Uuid) -> Result<Option<TokenRow>, ReadError> {
    let found = find_presented(cell, id).await?;
    Ok(found.and_then(|(row, end)| end.is_none().then_some(row)))
}

/// Looks a token up, and says why it no longer works if it does not: its secret may still be presented. One
/// statement for all, so that no answer comes sooner than another.
pub async fn find_presented(
    cell: HomeCell<'_>,
    id: Uuid,
) -> Result<Option<(TokenRow, Option<TokenEnd>)>, ReadError> {
    let client = cell.reader().await?;
    let Some(row) = client.query_opt(FIND, &[&id]).await? else {
        return Ok(None);
    };
    let end = match (row.get(10), row.get(11)) {
        (true, _) => Some(TokenEnd::Revoked),
        (false, true) => Some(TokenEnd::Expired),
        (false, false) => None,
    };
    let token = TokenRow {
        namespace_id: row.get(0),
        namespace: row.get(1),
        name: row.get(2),
        digest: row.get(3),
        expires_at: row.get(4),
        groups: row.get(5),
        rights: rights(&row, 6),
        use_is_old: row.get(7),
        networks: read_networks(&row, 8)?,
        queues: read_queues(&row, 9)?,
    };
    Ok(Some((token, end)))
}

/// Looks a token of a namespace up, whether it works or not.
pub async fn find_view(
    cell: HomeCell<'_>,
    namespace_id: i32,
    id: TokenId,
) -> Result<Option<TokenView>, ReadError> {
    let client = cell.reader().await?;
    let row = client
        .query_opt(VIEW, &[&namespace_id, id.as_uuid()])
        .await?;
    row.as_ref().map(view).transpose()
}

/// The tokens of a namespace, the newest first: those that work, or all. `before` is the last one of
/// the page before.
pub async fn list(
    cell: HomeCell<'_>,
    namespace_id: i32,
    all: bool,
    before: Option<(Timestamp, TokenId)>,
    limit: u16,
) -> Result<Vec<TokenView>, ReadError> {
    let (at, id) = before.map_or(NEWEST, |(at, id)| (at, *id.as_uuid()));
    let limit = i64::from(limit);
    let text = if all { ALL } else { WORKING };
    let client = cell.reader().await?;
    let rows = client
        .query(text, &[&namespace_id, &at, &id, &limit])
        .await?;
    rows.iter().map(view).collect()
}

/// Notes that a token was used.
pub async fn note_use(cell: HomeCell<'_>, id: TokenId) -> Result<(), ReadError> {
    let client = cell.reader().await?;
    client.execute(NOTE_USE, &[id.as_uuid()]).await?;
    Ok(())
}

/// How many tokens work now.
pub async fn count(cell: HomeCell<'_>) -> Result<i64, ReadError> {
    Ok(cell.reader().await?.query_one(COUNT, &[]).await?.get(0))
}

fn view(row: &Row) -> Result<TokenView, ReadError> {
    Ok(TokenView {
        id: TokenId::from_uuid(row.get(0)),
        name: row.get(1),
        digest: row.get(2),
        created_at: row.get(3),
        expires_at: row.get(4),
        revoked_at: row.get(5),
        groups: row.get(6),
        rights: rights(row, 7),
        works: row.get(8),
        role: row
            .get::<_, Option<&str>>(9)
            .and_then(|role| role.parse().ok()),
        last_used_at: row.get(10),
        networks: read_networks(row, 11)?,
        queues: read_queues(row, 12)?,
        made_by: row.get::<_, Option<Uuid>>(13).map(TokenId::from_uuid),
        derived: row.get(14),
        ends_at: row.get(15),
    })
}

/// A word that this version does not know allows nothing.
pub(crate) fn rights(row: &Row, column: usize) -> Rights {
    let words: Vec<&str> = row.get(column);
    Rights::of_words(words)
}
