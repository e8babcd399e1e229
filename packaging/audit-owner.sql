-- Gives the audit record to a role of its own: whoever has the credential of Semel's role can then add to the
-- record, and neither change it nor take its guard away. Run it as a superuser, after `semel migrate`:
--
--   createuser --no-login semel_audit
--   psql --dbname semel --set ON_ERROR_STOP=1 --set owner=semel_audit --set serving=semel --file audit-owner.sql
--
-- Semel's role must neither be a member of this role nor a superuser: `semel doctor` says whether the record is
-- guarded. Running it again does no harm. Before an upgrade whose migration changes these tables, give them back
-- (`REASSIGN OWNED BY semel_audit TO semel`), and run it once more afterwards.

BEGIN;

-- The owner of a schema can drop what is in it, and put another table in its place.
ALTER SCHEMA public OWNER TO :"owner";
GRANT USAGE, CREATE ON SCHEMA public TO :"serving";

ALTER TABLE audit OWNER TO :"owner";
ALTER TABLE audit_chain OWNER TO :"owner";
ALTER TABLE audit_removed OWNER TO :"owner";
ALTER FUNCTION refuse_audit_change() OWNER TO :"owner";
ALTER FUNCTION refuse_other_stretch() OWNER TO :"owner";
ALTER FUNCTION refuse_audit_removal() OWNER TO :"owner";
ALTER FUNCTION refuse_audit_chain_removal() OWNER TO :"owner";

-- Retention removes old acts by this function alone. It calls nothing that Semel's role owns.
ALTER FUNCTION remove_audit_stretch(integer, bigint, bigint, bytea, bytea, timestamptz, bigint[], timestamptz)
    OWNER TO :"owner";
ALTER FUNCTION remove_audit_stretch(integer, bigint, bigint, bytea, bytea, timestamptz, bigint[], timestamptz)
    SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp;
REVOKE ALL ON FUNCTION
    remove_audit_stretch(integer, bigint, bigint, bytea, bytea, timestamptz, bigint[], timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    remove_audit_stretch(integer, bigint, bigint, bytea, bytea, timestamptz, bigint[], timestamptz) TO :"serving";

REVOKE ALL ON audit, audit_chain, audit_removed FROM PUBLIC, :"serving";
GRANT SELECT, INSERT ON audit, audit_chain TO :"serving";
GRANT SELECT ON audit_removed TO :"serving";

COMMIT;
