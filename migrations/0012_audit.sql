-- An act of a person and its record become one commit, and the record can only be added to. Acts
-- name the run that they concern, so that whoever looks at a run sees who did what to it and why.

ALTER TABLE audit ADD COLUMN run_id uuid;
COMMENT ON COLUMN audit.run_id IS 'The run that it concerns, where it concerns one.';
CREATE INDEX audit_by_run ON audit (run_id, id) WHERE run_id IS NOT NULL;

CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of the audit table are never changed or removed'
        USING ERRCODE = 'insufficient_privilege';
END
$$;
COMMENT ON FUNCTION refuse_audit_change() IS
    'Keeps the audit table append-only, for every role; its owner can disable the trigger.';

CREATE TRIGGER audit_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
-- Also in sessions that replay another database's changes.
ALTER TABLE audit ENABLE ALWAYS TRIGGER audit_append_only;
COMMENT ON TABLE audit IS
    'What people did that changes what Semel would have done by itself. A row is added in the commit of its act, and never changed or removed.';

-- A rejected approval can be asked again, which is another round: links and decisions of an
-- earlier one do not count for it.
ALTER TABLE approvals ADD COLUMN round integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN approvals.round IS 'How many times the run had asked the same before.';
COMMENT ON COLUMN approvals.decided_by IS 'The name of a token; or, by link, the name that was claimed and that nobody verified.';
