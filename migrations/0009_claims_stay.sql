-- min_binary: 9
--
-- Claims stay when their key is free again, and sessions that were recovered from are marked.
--
-- A key that comes back after it was forgotten is the next run of its claim. Which one that is was
-- found by trying one identity after another; now the claim says it. A row that is free has no
-- expiry. The new columns are null for the only run of a key, so that its row is as small as before.

ALTER TABLE claims
    ALTER COLUMN expires_at DROP NOT NULL,
    ADD COLUMN run_number integer,
    ADD COLUMN last_run uuid,
    ADD COLUMN last_date date,
    ADD COLUMN counted_from timestamptz;
COMMENT ON COLUMN claims.run_id IS 'The run that answers for the key; where the key is free, the last that did.';
COMMENT ON COLUMN claims.fingerprint IS 'The payload of the delivery that made the run, to tell a repeat from a mismatch.';
COMMENT ON COLUMN claims.expires_at IS 'When it is looked at whether the key may be forgotten: its run must have ended, and keep counts from that end. Null where the key is free. Rounded up to the minute, so that the index stays small.';
COMMENT ON COLUMN claims.run_number IS 'How many runs of the key were forgotten or dropped before run_id. Null for the first.';
COMMENT ON COLUMN claims.last_run IS 'The run before run_id; where the key is free, run_id itself.';
COMMENT ON COLUMN claims.last_date IS 'Which partition holds the history of last_run. The row stays for as long as that history.';
COMMENT ON COLUMN claims.counted_from IS 'From when keep counts, where that is not the acceptance of the run: expires_at less this is keep.';

DROP INDEX claims_by_expiry;
CREATE INDEX claims_by_expiry ON claims (expires_at) WHERE expires_at IS NOT NULL;

-- Keys that were forgotten before this change: their claims are gone, their runs are there.
INSERT INTO claims (id, run_id, fingerprint, expires_at, run_number, last_run, last_date)
SELECT r.claim_id, (array_agg(r.id ORDER BY r.accepted_at DESC))[1],
       '00000000-0000-0000-0000-000000000000', NULL, nullif(count(*) - 1, 0),
       (array_agg(r.id ORDER BY r.accepted_at DESC))[1],
       (array_agg(r.born ORDER BY r.accepted_at DESC))[1]
  FROM runs r
 WHERE r.parent_id IS NULL
   AND NOT EXISTS (SELECT 1 FROM claims c WHERE c.id = r.claim_id)
 GROUP BY r.claim_id;

-- Keys that were forgotten and have come back since.
UPDATE claims c
   SET run_number = n.runs - 1, last_run = n.before, last_date = n.born
  FROM (SELECT r.claim_id, count(*) AS runs,
               (array_agg(r.id ORDER BY r.accepted_at DESC))[2] AS before,
               (array_agg(r.born ORDER BY r.accepted_at DESC))[2] AS born
          FROM runs r
         WHERE r.parent_id IS NULL
         GROUP BY r.claim_id
        HAVING count(*) > 1) AS n
 WHERE c.id = n.claim_id AND c.expires_at IS NOT NULL;

ALTER TABLE sessions ADD COLUMN lost_at timestamptz;
COMMENT ON COLUMN sessions.lost_at IS 'When its runs began to be freed; it is never renewed after that, whatever the clock says.';
