//! Whether the role that Semel uses could change the audit record itself: its tables, the functions that guard
//! them, and their schema belong to another role where the operator gave them to one
//! (`packaging/audit-owner.sql`).

use crate::cell::{Cell, ReadError};

/// True also where the number of an act or the time of a seal can be chosen, as an earlier `audit-owner.sql` left it;
/// for a superuser; and for the owner of the database if the schema belongs to `pg_database_owner`: these two count as
/// members of those roles.
pub(super) const CAN_REWRITE_RECORD: &str = "
    SELECT coalesce(bool_or(pg_has_role(o.owner, 'MEMBER')), true)
           OR has_column_privilege('public.audit', 'id', 'INSERT')
           OR has_column_privilege('public.audit_chain', 'sealed_at', 'INSERT')
      FROM (SELECT relowner
              FROM pg_class
             WHERE oid IN ('public.audit'::regclass, 'public.audit_chain'::regclass,
                           'public.audit_removed'::regclass)
             UNION ALL
            SELECT p.proowner
              FROM pg_proc p
              JOIN pg_class c ON c.relnamespace = p.pronamespace
             WHERE c.oid = 'public.audit'::regclass
               AND p.proname IN ('refuse_audit_change', 'refuse_other_stretch', 'refuse_audit_removal',
                                 'refuse_audit_chain_removal', 'remove_audit_stretch', 'stamp_audit',
                                 'refuse_other_seal')
             UNION ALL
            SELECT n.nspowner
              FROM pg_namespace n
              JOIN pg_class c ON c.relnamespace = n.oid
             WHERE c.oid = 'public.audit'::regclass) AS o (owner)";

/// Whether this role can act as an owner of the record.
pub async fn can_rewrite_record(cell: &Cell) -> Result<bool, ReadError> {
    let client = cell.reader().await?;
    Ok(client.query_one(CAN_REWRITE_RECORD, &[]).await?.get(0))
}
