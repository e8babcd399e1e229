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

-- Semel's role may make schemas: a table of the same name in one that is searched first would be taken for the record.
SET LOCAL search_path = public, pg_temp;

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
ALTER FUNCTION refuse_other_stretch() SET search_path = pg_catalog, public, pg_temp;
ALTER FUNCTION refuse_audit_removal() SET search_path = pg_catalog, public, pg_temp;
ALTER FUNCTION refuse_audit_chain_removal() SET search_path = pg_catalog, public, pg_temp;

-- The time of an act and of a seal is PostgreSQL's own: moment() belongs to Semel's role, and a time without end could neither
-- be read nor be followed by another.
CREATE OR REPLACE FUNCTION stamp_audit() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$ BEGIN
        NEW.at := clock_timestamp();
        RETURN NEW;
    END $$;
ALTER FUNCTION stamp_audit() OWNER TO :"owner";
CREATE OR REPLACE TRIGGER audit_stamped
    BEFORE INSERT ON audit
    FOR EACH ROW EXECUTE FUNCTION stamp_audit();

-- A chain goes on behind its last place, with an act of its own namespace. Otherwise two rows could stop sealing for
-- good. Not in sessions that replay another database's changes or restore a dump.
CREATE OR REPLACE FUNCTION refuse_other_seal() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$ BEGIN
        IF NOT EXISTS (
               SELECT 1 FROM public.audit a
                WHERE a.id = NEW.audit_id AND a.namespace_id = NEW.namespace_id)
           OR NEW.position IS DISTINCT FROM 1 + greatest(
               (SELECT max(c.position) FROM public.audit_chain c WHERE c.namespace_id = NEW.namespace_id),
               (SELECT max(r.last_position) FROM public.audit_removed r WHERE r.namespace_id = NEW.namespace_id),
               0) THEN
            RAISE EXCEPTION 'this does not continue a chain of the audit record'
                USING ERRCODE = 'insufficient_privilege';
        END IF;
        NEW.sealed_at := clock_timestamp();
        RETURN NEW;
    END $$;
ALTER FUNCTION refuse_other_seal() OWNER TO :"owner";
CREATE OR REPLACE TRIGGER audit_chain_continues
    BEFORE INSERT ON audit_chain
    FOR EACH ROW EXECUTE FUNCTION refuse_other_seal();

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
REVOKE ALL ON SEQUENCE audit_id_seq FROM PUBLIC, :"serving";
GRANT SELECT ON audit, audit_chain, audit_removed TO :"serving";
-- Numbers come from the sequence.
GRANT INSERT (namespace_id, actor, action, subject, reason, run_id, token_id, address, old_digest, new_digest)
    ON audit TO :"serving";
GRANT INSERT (namespace_id, position, audit_id, digest) ON audit_chain TO :"serving";

COMMIT;
