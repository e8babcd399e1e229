-- Deliveries by subscription: each has its own line, so that a slow receiver holds up nobody else.

ALTER TABLE outgoing ADD COLUMN since timestamptz NOT NULL DEFAULT moment();
COMMENT ON COLUMN outgoing.since IS 'From when the time for its attempts counts: it was made due, or a person had it tried again.';
COMMENT ON COLUMN outgoing.attempt IS 'How often it was tried, since a person last had it tried again.';
COMMENT ON COLUMN outgoing.connection IS 'The connection that the latest attempt went to.';

DROP INDEX outgoing_by_due;
CREATE INDEX outgoing_by_due ON outgoing (namespace_id, subscription, due_at) WHERE state = 'due';
CREATE INDEX outgoing_by_subscription ON outgoing (namespace_id, subscription, emitted_at, event_id);
CREATE INDEX outbox_by_age ON outbox (emitted_at, id);
