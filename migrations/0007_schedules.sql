-- Schedules: how far each is decided, when it is due next, and what became of its instants.

ALTER TABLE flows ADD COLUMN live_at timestamptz;
COMMENT ON COLUMN flows.live_at IS 'When the live release took the place of another; null where that was before it was kept. Instants of its schedule count from here.';

CREATE TABLE schedules (
    id           uuid PRIMARY KEY,
    namespace_id integer NOT NULL,
    flow         text NOT NULL,
    release_id   integer,
    version      bigint NOT NULL,
    zones        text NOT NULL,
    decided_to   timestamptz NOT NULL,
    due_at       timestamptz,
    paused_at    timestamptz,
    paused_by    text
) WITH (fillfactor = 70);
COMMENT ON TABLE schedules IS 'One row for each flow whose live release has, or had, a schedule.';
COMMENT ON COLUMN schedules.id IS 'Digest of namespace and flow; its first 12 bits are the slot.';
COMMENT ON COLUMN schedules.namespace_id IS 'Whose it is.';
COMMENT ON COLUMN schedules.flow IS 'The flow''s name.';
COMMENT ON COLUMN schedules.release_id IS 'The release whose rhythm is in force; null where the live one has none.';
COMMENT ON COLUMN schedules.version IS 'The state of the control data that it was last decided by. A server that knows an older one leaves the row alone.';
COMMENT ON COLUMN schedules.zones IS 'The edition of the time zones that due_at was worked out with.';
COMMENT ON COLUMN schedules.decided_to IS 'Every instant up to here is decided. It never goes back, whatever the clock does.';
COMMENT ON COLUMN schedules.due_at IS 'When somebody has to look at it: the next instant, or at once. Null while it is paused or has no rhythm.';
COMMENT ON COLUMN schedules.paused_at IS 'Since when its instants start nothing.';
COMMENT ON COLUMN schedules.paused_by IS 'Who paused it.';

CREATE INDEX schedules_by_due ON schedules (due_at) WHERE due_at IS NOT NULL;

CREATE TYPE tick_verdict AS ENUM ('fired', 'skipped');

CREATE TABLE ticks (
    schedule_id uuid NOT NULL,
    nominal     timestamptz NOT NULL,
    verdict     tick_verdict NOT NULL,
    last        timestamptz NOT NULL,
    instants    bigint NOT NULL,
    reason      text,
    run_id      uuid,
    fired_by    text,
    decided_at  timestamptz NOT NULL,
    PRIMARY KEY (schedule_id, nominal, verdict)
);
COMMENT ON TABLE ticks IS 'What became of the instants of schedules: each is in one row, fired alone or skipped with its neighbours. One that was skipped and then fired by hand is in both.';
COMMENT ON COLUMN ticks.schedule_id IS 'The schedule.';
COMMENT ON COLUMN ticks.nominal IS 'The instant; the first where several were skipped together.';
COMMENT ON COLUMN ticks.verdict IS 'Whether it has a run.';
COMMENT ON COLUMN ticks.last IS 'The last of the instants that the row is about.';
COMMENT ON COLUMN ticks.instants IS 'How many instants the row is about.';
COMMENT ON COLUMN ticks.reason IS 'Why it was skipped: missed, capped, paused or refused.';
COMMENT ON COLUMN ticks.run_id IS 'The run that it has.';
COMMENT ON COLUMN ticks.fired_by IS 'Who fired it by hand.';
COMMENT ON COLUMN ticks.decided_at IS 'When that was decided.';

CREATE INDEX ticks_by_age ON ticks (decided_at);
