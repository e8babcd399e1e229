-- Broadcasts: an event that many runs wait for answers them a page at a time.
--
-- Its waits used to be answered one by one while a transaction stood open and everything else that
-- was emitted waited behind it.

CREATE TABLE broadcasts (
    event_id     uuid PRIMARY KEY,
    namespace_id integer NOT NULL,
    run_id       uuid NOT NULL,
    event        text NOT NULL,
    data         json NOT NULL,
    emitted_at   timestamptz NOT NULL,
    begun_at     timestamptz NOT NULL,
    due_at       timestamptz NOT NULL,
    path         text COLLATE "C",
    after        uuid
);
COMMENT ON TABLE broadcasts IS 'Events whose waits are being answered, a page at a time. A row leaves when the last page is answered.';
COMMENT ON COLUMN broadcasts.event_id IS 'The event.';
COMMENT ON COLUMN broadcasts.namespace_id IS 'Whose it is.';
COMMENT ON COLUMN broadcasts.run_id IS 'The run that emitted it.';
COMMENT ON COLUMN broadcasts.event IS 'The event''s name.';
COMMENT ON COLUMN broadcasts.data IS 'What it carries.';
COMMENT ON COLUMN broadcasts.emitted_at IS 'When it committed.';
COMMENT ON COLUMN broadcasts.begun_at IS 'When its waits began to be answered. Waits that open later are not answered by it.';
COMMENT ON COLUMN broadcasts.due_at IS 'When the next page is answered. A server that answers one moves it ahead; if that server dies, another goes on then.';
COMMENT ON COLUMN broadcasts.path IS 'The cursor: the part of the event by which the last page of waits was found; null before the first.';
COMMENT ON COLUMN broadcasts.after IS 'The cursor: the last wait of that page.';
CREATE INDEX broadcasts_by_due ON broadcasts (due_at);
