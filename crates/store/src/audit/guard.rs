//! Whether the role that Semel uses could change the audit record itself: its tables, the functions that guard
//! them, and their schema belong to another role where the operator gave them to one
//! (`packaging/audit-owner.sql`).

use crate::cell::{Cell, ReadError};

/// True also for a superuser, and for the owner of the database if the schema belongs to `pg_database_owner`:
/// both count as members of those roles.
pub(super) const REACHED: &str = "
    SELECT coalesce(bool_or(pg_has_role(o.owner, 'MEMBER')), true)
      FROM (SELECT relowner
              FROM pg_class
             WHERE oid IN ('audit'::regclass, 'audit_chain'::regclass, 'audit_removed'::regclass)
             UNION ALL
            SELECT p.proowner
              FROM pg_proc p
              JOIN pg_class c ON c.relnamespace = p.pronamespace
             WHERE c.oid = 'audit'::regclass
               AND p.proname IN ('refuse_audit_change', 'refuse_other_stretch', 'refuse_audit_removal',
                                 'refuse_audit_chain_removal', 'remove_audit_stretch')
             UNION ALL
            SELECT n.nspowner
              FROM pg_namespace n
              JOIN pg_class c ON c.relnamespace = n.oid
             WHERE c.oid = 'audit'::regclass) AS o (owner)";

/// Whether this role can act as an owner of the record.
pub async fn is_reached(cell: &Cell) -> Result<bool, ReadError> {
    let client = cell.reader().await?;
    Ok(client.query_one(REACHED, &[]).await?.get(0))
}
