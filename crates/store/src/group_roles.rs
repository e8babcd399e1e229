//! The `group_roles` table: which role the members of a group have who sign in through an identity
//! provider.
//!
//! A group gets a role only while its mapper works and has every right of that role, from anywhere and on
//! every queue, because people are limited to neither: the condition stands in the statement, as for
//! tokens. What people have through a group ends in the commit that changes its role, and their next
//! sign-in reads the new one.

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use semel_model::{Rights, Role, TokenId};
use tokio_postgres::types::ToSql;

use crate::audit::{self, AuditEntry};
use crate::cell::{HomeCell, ReadError};
use crate::tokens;

const MAP: &str = "
    INSERT INTO group_roles (namespace_id, group_name, role, rights)
    SELECT m.namespace_id, $2::text, $3::text, $7::text[]
      FROM (SELECT namespace_id
              FROM tokens
             WHERE id = $4 AND namespace_id = $1 AND revoked_at IS NULL AND expires_at > moment()
               AND rights @> $5::text[] AND 'admin' = ANY(rights) AND cardinality(networks) = 0
               AND (cardinality(queues) = 0 OR NOT 'work' = ANY($5::text[]))
               FOR SHARE) m
     WHERE $6 > (SELECT count(*) FROM group_roles WHERE namespace_id = $1 AND group_name <> $2)
        ON CONFLICT (namespace_id, group_name) DO UPDATE
       SET role = EXCLUDED.role, rights = EXCLUDED.rights, changed_at = moment()";

const FIND: &str = "
    SELECT group_name, role, changed_at, rights
      FROM group_roles
     WHERE namespace_id = $1 AND group_name = $2";

const LIST: &str = "
    SELECT group_name, role, changed_at, rights
      FROM group_roles
     WHERE namespace_id = $1
     ORDER BY group_name";

const UNMAP: &str = "DELETE FROM group_roles WHERE namespace_id = $1 AND group_name = $2";

/// A role that changes meanwhile waits for the sign-in, and then ends it.
const OF_GROUPS: &str = "
    SELECT g.namespace_id, n.name, g.role, g.group_name, g.rights
      FROM group_roles g
      JOIN namespaces n ON n.id = g.namespace_id
     WHERE g.group_name = ANY($1)
     ORDER BY n.name, g.group_name
       FOR SHARE OF g";

pub(crate) const STATEMENTS: &[&str] = &[MAP, FIND, LIST, UNMAP, OF_GROUPS];

/// The most groups that a namespace maps.
pub const GROUPS_MAX: i64 = 500;

/// A group and its role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRoleView {
    /// The group, as the identity provider calls it.
    pub group: String,
    /// The role.
    pub role: Role,
    /// What its members may do besides: rights that the role may be given, and does not bring.
    pub rights: Rights,
    /// When the group got it.
    pub changed_at: Timestamp,
}

/// The role that one of a person's groups has in a namespace.
pub(crate) struct MappedGroup {
    pub(crate) namespace_id: i32,
    pub(crate) namespace: String,
    pub(crate) role: Role,
    pub(crate) rights: Rights,
    pub(crate) group: String,
}

/// Gives a group a role, and further rights. False where the mapper no longer works, lacks one of all these
/// rights or has it within limits, or the namespace has too many groups.
pub async fn map(
    cell: HomeCell<'_>,
    namespace_id: i32,
    (group, role, further): (&str, Role, Rights),
    mapper: TokenId,
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let all: Rights = role.rights().iter().chain(further.iter()).collect();
    let (rights, further) = (all.words(), further.words());
    let values: [&(dyn ToSql + Sync); 7] = [
        &namespace_id,
        &group,
        &role.as_str(),
        mapper.as_uuid(),
        &rights,
        &GROUPS_MAX,
        &further,
    ];
    change(cell, (namespace_id, group), (MAP, &values), act).await
}

/// Takes a group's role away. False where it has none.
pub async fn unmap(
    cell: HomeCell<'_>,
    namespace_id: i32,
    group: &str,
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let values: [&(dyn ToSql + Sync); 2] = [&namespace_id, &group];
    change(cell, (namespace_id, group), (UNMAP, &values), act).await
}

async fn change(
    cell: HomeCell<'_>,
    (namespace_id, group): (i32, &str),
    (statement, values): (&str, &[&(dyn ToSql + Sync)]),
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    if tx.execute(statement, values).await? == 0 {
        return Ok(false);
    }
    tokens::lapse(&tx, namespace_id, group).await?;
    audit::append(&tx, act).await?;
    tx.commit().await?;
    Ok(true)
}

/// The role of one group.
pub async fn find(
    cell: HomeCell<'_>,
    namespace_id: i32,
    group: &str,
) -> Result<Option<GroupRoleView>, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_opt(FIND, &[&namespace_id, &group]).await?;
    Ok(row.and_then(|row| view(&row)))
}

/// The groups of a namespace that have a role, by name.
pub async fn list(cell: HomeCell<'_>, namespace_id: i32) -> Result<Vec<GroupRoleView>, ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(LIST, &[&namespace_id]).await?;
    Ok(rows.iter().filter_map(view).collect())
}

/// What these groups may do, in every namespace, by its name.
pub(crate) async fn of_groups(
    tx: &Transaction<'_>,
    groups: &[String],
) -> Result<Vec<MappedGroup>, ReadError> {
    let rows = tx.query(OF_GROUPS, &[&groups]).await?;
    let mapped = rows.iter().filter_map(|row| {
        Some(MappedGroup {
            namespace_id: row.get(0),
            namespace: row.get(1),
            role: row.get::<_, &str>(2).parse().ok()?,
            rights: tokens::rights(row, 4),
            group: row.get(3),
        })
    });
    Ok(mapped.collect())
}

/// A word that this version does not know is no role.
fn view(row: &tokio_postgres::Row) -> Option<GroupRoleView> {
    Some(GroupRoleView {
        group: row.get(0),
        role: row.get::<_, &str>(1).parse().ok()?,
        rights: tokens::rights(row, 3),
        changed_at: row.get(2),
    })
}
