//! The checker of invariants: a sound world has no breach, and each broken state is named.

use std::time::Duration;

use anyhow::Result;
use semel_model::{EffectId, NamedEffectId, RunId, SessionId, Span, WaitId};
use semel_store::claims::start_accepting;
use semel_store::duties::{self, DutyNote};
use semel_store::invariants::{self, BREACHES_MAX, Breach, Invariant, InvariantReport};
use semel_store::{clock, namespaces, refused_deliveries, sessions};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::world::{World, delivery};

/// The run sleeps until somebody wakes it.
const SLEEP: &str = "UPDATE queue SET stage = 'waiting', due_at = 'infinity' WHERE run_id = $1";

const ANSWERED_WAIT: &str = "
    INSERT INTO waits (id, run_id, namespace_id, state, step, opened_at, ended_at, payload)
    VALUES ($1, $2, 1, 'answered', 'paid', moment(), moment(), '{}')";

const DONE_TASK: &str = "
    INSERT INTO tasks (id, run_id, namespace_id, queue, step, state, attempt, token, lease_ms, opened_at,
                       ended_at, input)
    VALUES ($1, $2, 1, 'images', 'work', 'done', 1, 1, 1000, moment(), moment(), '{}')";

const DECIDED_APPROVAL: &str = "
    INSERT INTO approvals (id, run_id, namespace_id, flow, step, state, people, escalate, shown, digest, login,
                           opened_at, ended_at, approved, decided_by)
    VALUES ($1, $2, 1, 'story', 'ask', 'decided', '{}', '{}', '{}', 'seen', false, moment(), moment(), true, 'ann')";

const ENDED_CHILD: &str = "
    INSERT INTO child_runs (parent_id, step, index, run_id, namespace_id, key, state, ended_at)
    VALUES ($2, 'each', 0, $1, 1, 'a', 'succeeded', moment())";

const OPEN_CHILD: &str = "
    INSERT INTO child_runs (parent_id, step, index, run_id, namespace_id, key, state)
    VALUES ($2, 'each', 1, $1, 1, 'b', 'open')";

const PAUSED: &str = "INSERT INTO paused_runs (run_id, pause_id) VALUES ($1, 1)";

const STOPPED: &str = "UPDATE queue SET stage = 'stopped' WHERE run_id = $1";

/// An effect of a run in a state.
const EFFECT: &str = "
    INSERT INTO effects (partition_date, id, run_id, namespace_id, step, kind, guard, state, attempt, intended_at,
                         settled_at)
    SELECT r.partition_date, $1::uuid, r.id, 1, 'charge', 'http', 'review', $3::text::effect_state, 1, moment(),
           moment()
      FROM runs r
     WHERE r.id = $2";

const EFFECT_LISTED: &str = "
    INSERT INTO attention (subject_id, kind, partition_date, namespace_id, run_id, flow_id, step, since, accepted_at,
                           is_child)
    SELECT $1::uuid, 'doubt', r.partition_date, 1, r.id, 1, 'charge', moment(), moment(), false
      FROM runs r
     WHERE r.id = $2";

/// A business key that the step of a run holds, in a state.
const NAME: &str = "
    INSERT INTO named_effects (id, namespace_id, scope, key, state, kind, destination, method, token, holder,
                               holder_run, holder_step, heartbeat_at, begun_at, keep_ms)
    VALUES ($1, 1, 'shared', 'invoice', $3::text::named_effect_state, 'http', 'bank', 'POST', 1, $1, $2, 'charge',
            moment(), moment(), 1000)";

const NAME_LISTED: &str = "
    INSERT INTO attention (subject_id, kind, partition_date, namespace_id, step, since, is_child)
    VALUES ($1, 'named_effect', '-infinity', 1, 'charge', moment(), false)";

const RUN_LISTED: &str = "
    INSERT INTO attention (subject_id, kind, partition_date, namespace_id, run_id, flow_id, step, since, accepted_at,
                           is_child)
    SELECT r.id, 'quarantined', r.partition_date, 1, r.id, 1, '', moment(), moment(), false
      FROM runs r
     WHERE r.id = $1";

const EVENT: &str = "
    INSERT INTO outbox (id, namespace_id, run_id, event, data, emitted_at, due_at, tries, unread)
    VALUES ($1, 1, $2, 'paid', '{}', moment(), moment() + interval '1 hour', $3, $4)";

/// Rows of a run that say only that its connection has no room.
const HELD_BACK_ROWS: &str = r#"
    INSERT INTO journal (partition_date, run_id, seq, epoch, at, events)
    SELECT q.partition_date, q.run_id, n, q.epoch, moment(),
           '[{"event":"failed","step":"a","fault":{"code":"destination-busy","kind":"held_back"}}]'
      FROM queue q, generate_series(2, 40) AS n
     WHERE q.run_id = $1"#;

/// Events that were emitted, and are due since.
const DUE_EVENTS: &str = "
    INSERT INTO outbox (id, namespace_id, run_id, event, data, emitted_at)
    SELECT id, 1, id, 'paid', '{}', moment() FROM unnest($1::uuid[]) AS t (id)";

const DUE_BROADCASTS: &str = "
    INSERT INTO broadcasts (event_id, namespace_id, run_id, event, data, emitted_at, begun_at, due_at)
    SELECT id, 1, id, 'paid', '{}', moment(), moment(), moment() FROM unnest($1::uuid[]) AS t (id)";

/// Steps of a run, each held back once before its connection had room.
const HELD_BACK_STEPS: &str = r#"
    INSERT INTO journal (partition_date, run_id, seq, epoch, at, events)
    SELECT q.partition_date, q.run_id, n, q.epoch, moment(),
           (ARRAY['[{"event":"intended","step":"a"}]',
                  '[{"event":"failed","step":"a","fault":{"code":"destination-busy","kind":"held_back"}}]',
                  '[{"event":"intended","step":"a"}]',
                  '[{"event":"done","step":"a"}]'])[n % 4 + 1]::json
      FROM queue q, generate_series(2, 40) AS n
     WHERE q.run_id = $1"#;

/// The duties that the build knows.
const KNOWN: &[&str] = &["alerts", "resource_scan"];

/// A database to break.
struct Ground {
    world: World,
}

impl Ground {
    async fn start() -> Result<Self> {
        Ok(Self {
            world: World::start().await?,
        })
    }

    /// A run that was accepted and waits for something.
    async fn sleeper(&self, key: &str) -> Result<RunId> {
        let accepting = start_accepting(&self.world.cell);
        let accepted = accepting.write(delivery(key, "{}", None)?).await?;
        self.change(SLEEP, &[accepted.run.as_uuid()]).await?;
        Ok(accepted.run)
    }

    async fn change(&self, text: &str, values: &[&(dyn ToSql + Sync)]) -> Result<()> {
        self.world.connect().await?.execute(text, values).await?;
        Ok(())
    }

    /// Makes `text` of an identity and a run.
    async fn add(&self, text: &str, run: RunId) -> Result<()> {
        let id = WaitId::derive(run, text);
        self.change(text, &[id.as_uuid(), run.as_uuid()]).await
    }

    /// An effect of a run and a business key that it holds, both in doubt.
    async fn doubt(&self, run: RunId) -> Result<Acts> {
        let acts = Acts::of(run);
        let effect: [&(dyn ToSql + Sync); 3] = [acts.effect.as_uuid(), run.as_uuid(), &"in_doubt"];
        self.change(EFFECT, &effect).await?;
        let name: [&(dyn ToSql + Sync); 3] = [acts.name.as_uuid(), run.as_uuid(), &"in_doubt"];
        self.change(NAME, &name).await?;
        Ok(acts)
    }

    /// Lists both for people.
    async fn list(&self, run: RunId) -> Result<Acts> {
        let acts = Acts::of(run);
        let effect: [&(dyn ToSql + Sync); 2] = [acts.effect.as_uuid(), run.as_uuid()];
        self.change(EFFECT_LISTED, &effect).await?;
        self.change(NAME_LISTED, &[acts.name.as_uuid()]).await?;
        Ok(acts)
    }

    /// A server that has lived for longer than any of the limits that spare one that starts.
    async fn serve(&self) -> Result<SessionId> {
        let session = SessionId::generate();
        sessions::open(&self.world.cell, session, "test", Span::from_secs(86_400)).await?;
        self.pass(120).await?;
        Ok(session)
    }

    async fn pass(&self, secs: u64) -> Result<()> {
        Ok(clock::move_ahead(&self.world.cell, Duration::from_secs(secs)).await?)
    }

    async fn check(&self, invariant: Invariant) -> Result<InvariantReport> {
        Ok(invariants::check(&self.world.cell, invariant, KNOWN, |_| {}).await?)
    }

    /// The breaches of an invariant, in an order of their own.
    async fn breaches(&self, invariant: Invariant) -> Result<Vec<Breach>> {
        Ok(sorted(self.check(invariant).await?.breaches))
    }
}

/// What a run did.
struct Acts {
    effect: EffectId,
    name: NamedEffectId,
}

impl Acts {
    fn of(run: RunId) -> Self {
        let effect = EffectId::derive(run, "charge", "", 0);
        Self {
            effect,
            name: NamedEffectId::from_uuid(*effect.as_uuid()),
        }
    }
}

fn breach(subject: impl ToString, found: &str) -> Breach {
    Breach {
        subject: subject.to_string(),
        found: found.to_owned(),
    }
}

fn sorted(mut breaches: Vec<Breach>) -> Vec<Breach> {
    breaches.sort_by(|one, other| (&one.subject, &one.found).cmp(&(&other.subject, &other.found)));
    breaches
}

#[tokio::test]
async fn a_sound_world_breaks_no_invariant() -> Result<()> {
    let ground = Ground::start().await?;
    namespaces::ensure(ground.world.cell.home(), &"default".parse()?).await?;
    ground.serve().await?;
    ground.sleeper("asleep").await?;
    let due = start_accepting(&ground.world.cell);
    due.write(delivery("due", "{}", None)?).await?;
    let ended = ground.sleeper("ended").await?;
    ground.world.end(ended, "succeeded").await?;
    let parent = ground.sleeper("parent").await?;
    ground.add(ENDED_CHILD, parent).await?;
    ground.add(OPEN_CHILD, parent).await?;
    let doubtful = ground.sleeper("doubtful").await?;
    ground.doubt(doubtful).await?;
    ground.list(doubtful).await?;
    let quarantine = "UPDATE runs SET state = 'quarantined' WHERE id = $1";
    ground.change(quarantine, &[doubtful.as_uuid()]).await?;
    ground.change(RUN_LISTED, &[doubtful.as_uuid()]).await?;

    for invariant in Invariant::ALL {
        let mut heard = 0;
        let cell = &ground.world.cell;
        let report = invariants::check(cell, invariant, KNOWN, |rows| heard = rows).await?;

        assert_eq!(report.breaches, [], "{invariant:?}");
        assert_eq!(report.breach_count, 0, "{invariant:?}");
        assert_eq!(report.unknown, Vec::<String>::new(), "{invariant:?}");
        assert!(heard <= report.looked_at, "{invariant:?}");
    }
    let records = ground.check(Invariant::Records).await?;
    assert_eq!(
        records.looked_at,
        4 + 5 + 1 + 3,
        "the queue, the runs, the business key and what is listed"
    );
    Ok(())
}

#[tokio::test]
async fn a_run_that_sleeps_over_what_it_waits_for_is_named() -> Result<()> {
    let ground = Ground::start().await?;
    let called = ground.sleeper("called").await?;
    ground.add(ANSWERED_WAIT, called).await?;
    let worked = ground.sleeper("worked").await?;
    ground.add(DONE_TASK, worked).await?;
    let asked = ground.sleeper("asked").await?;
    ground.add(DECIDED_APPROVAL, asked).await?;
    let parent = ground.sleeper("parent").await?;
    ground.add(ENDED_CHILD, parent).await?;

    ground.pass(3).await?;
    let found = ground.breaches(Invariant::Wakes).await?;

    let named = [
        breach(called, "sleeps although its wait at paid is answered"),
        breach(worked, "sleeps although its task at work is over: done"),
        breach(asked, "sleeps although its approval at ask is decided"),
        breach(parent, "sleeps although each child run at each has ended"),
    ];
    assert_eq!(found, sorted(named.to_vec()));
    Ok(())
}

#[tokio::test]
async fn a_run_that_has_a_reason_to_sleep_is_not_named() -> Result<()> {
    let ground = Ground::start().await?;
    for (key, change) in [("paused", PAUSED), ("stopped", STOPPED)] {
        let run = ground.sleeper(key).await?;
        ground.add(ANSWERED_WAIT, run).await?;
        ground.add(DONE_TASK, run).await?;
        ground.change(change, &[run.as_uuid()]).await?;
    }
    let passed = ground.sleeper("passed").await?;
    ground.add(ANSWERED_WAIT, passed).await?;
    let later = "UPDATE journal SET at = moment() + interval '1 second' WHERE run_id = $1";
    ground.change(later, &[passed.as_uuid()]).await?;
    // The wake may be on the way.
    let recent = ground.sleeper("answered just now").await?;
    ground.add(ANSWERED_WAIT, recent).await?;
    let now = "UPDATE waits SET ended_at = moment() + interval '1 hour' WHERE run_id = $1";
    ground.change(now, &[recent.as_uuid()]).await?;
    ground.pass(60).await?;

    assert_eq!(ground.breaches(Invariant::Wakes).await?, []);
    Ok(())
}

#[tokio::test]
async fn a_run_in_the_hands_of_a_worker_that_is_gone_is_named() -> Result<()> {
    let ground = Ground::start().await?;
    let held = ground.sleeper("held").await?;
    let gone = SessionId::generate();
    let hold = "UPDATE queue SET holder = $2 WHERE run_id = $1";
    ground
        .change(hold, &[held.as_uuid(), gone.as_uuid()])
        .await?;

    let without_servers = ground.breaches(Invariant::Wakes).await?;
    ground.serve().await?;
    let found = ground.breaches(Invariant::Wakes).await?;

    assert_eq!(without_servers, [], "there is nobody who could free it");
    assert_eq!(found, [breach(held, "is held by a session that is over")]);
    Ok(())
}

#[tokio::test]
async fn what_is_taken_again_and_again_is_named() -> Result<()> {
    let ground = Ground::start().await?;
    let spinning = ground.sleeper("spinning").await?;
    let spin = "UPDATE queue SET epoch = epoch + 700 WHERE run_id = $1";
    ground.change(spin, &[spinning.as_uuid()]).await?;
    let events = ["stuck", "newer"].map(|step| EffectId::derive(spinning, step, "", 0));
    for (event, unread) in events.iter().zip([None, Some("newer")]) {
        let values: [&(dyn ToSql + Sync); 4] =
            [event.as_uuid(), spinning.as_uuid(), &30_i32, &unread];
        ground.change(EVENT, &values).await?;
    }

    let found = ground.breaches(Invariant::Progress).await?;

    let named = [
        breach(spinning, "was taken 700 times without a row"),
        breach(
            events[0],
            "was dispatched 30 times, and a receiver does not have it",
        ),
    ];
    assert_eq!(found, sorted(named.to_vec()));
    Ok(())
}

#[tokio::test]
async fn an_event_that_nobody_dispatches_is_named_while_there_are_servers() -> Result<()> {
    let ground = Ground::start().await?;
    let run = ground.sleeper("emitted").await?;
    let event = EffectId::derive(run, "tell", "", 0);
    let none: Option<&str> = None;
    let values: [&(dyn ToSql + Sync); 4] = [event.as_uuid(), run.as_uuid(), &0_i32, &none];
    ground.change(EVENT, &values).await?;
    ground.pass(7_200).await?;

    let without_servers = ground.breaches(Invariant::Progress).await?;
    ground.serve().await?;
    let found = ground.breaches(Invariant::Progress).await?;

    assert_eq!(without_servers, []);
    let words = "is due for more than a minute, and nobody dispatches it";
    assert_eq!(found, [breach(event, words)]);
    Ok(())
}

#[tokio::test]
async fn a_record_that_is_missing_is_named() -> Result<()> {
    let ground = Ground::start().await?;
    let forgotten = ground.sleeper("forgotten").await?;
    let unqueued = ground.sleeper("unqueued").await?;
    let torn = ground.sleeper("torn").await?;
    let unlisted = ground.sleeper("unlisted").await?;
    for (run, change) in [
        (forgotten, "DELETE FROM runs WHERE id = $1"),
        (unqueued, "DELETE FROM queue WHERE run_id = $1"),
        (torn, "DELETE FROM journal WHERE run_id = $1"),
        (
            unlisted,
            "UPDATE runs SET state = 'needs_review' WHERE id = $1",
        ),
    ] {
        ground.change(change, &[run.as_uuid()]).await?;
    }

    let found = ground.breaches(Invariant::Records).await?;

    let named = [
        breach(forgotten, "is in the queue and has no record"),
        breach(unqueued, "has not ended and is not in the queue"),
        breach(torn, "is at row 1 of its journal, and the row is not there"),
        breach(unlisted, "is needs_review and not listed for people"),
    ];
    assert_eq!(found, sorted(named.to_vec()));
    Ok(())
}

#[tokio::test]
async fn a_doubt_that_is_not_listed_for_people_is_named() -> Result<()> {
    let ground = Ground::start().await?;
    let listed = ground.sleeper("listed").await?;
    ground.doubt(listed).await?;
    ground.list(listed).await?;
    let unlisted = ground.sleeper("unlisted").await?;
    let acts = ground.doubt(unlisted).await?;

    let found = ground.breaches(Invariant::Records).await?;

    let named = [
        breach(unlisted, "is in doubt at charge and not listed for people"),
        breach(acts.name, "is in doubt and not listed for people"),
    ];
    assert_eq!(found, sorted(named.to_vec()));
    Ok(())
}

#[tokio::test]
async fn what_is_listed_for_people_without_a_reason_is_named() -> Result<()> {
    let ground = Ground::start().await?;
    let retried = ground.sleeper("retried").await?;
    let acts = ground.list(retried).await?;
    let effect: [&(dyn ToSql + Sync); 3] = [acts.effect.as_uuid(), retried.as_uuid(), &"retrying"];
    ground.change(EFFECT, &effect).await?;
    let name: [&(dyn ToSql + Sync); 3] = [acts.name.as_uuid(), retried.as_uuid(), &"pending"];
    ground.change(NAME, &name).await?;
    let resumed = ground.sleeper("resumed").await?;
    ground.change(RUN_LISTED, &[resumed.as_uuid()]).await?;

    let found = ground.breaches(Invariant::Records).await?;

    let named = [
        breach(
            acts.effect,
            "is listed for people as in doubt at charge, and is not",
        ),
        breach(acts.name, "is listed for people as in doubt, and is not"),
        breach(resumed, "is listed for people as quarantined, and is not"),
    ];
    assert_eq!(found, sorted(named.to_vec()));
    Ok(())
}

#[tokio::test]
async fn a_run_that_writes_rows_while_its_connection_has_no_room_is_named() -> Result<()> {
    let ground = Ground::start().await?;
    let waiting = ground.sleeper("waiting").await?;
    ground.change(HELD_BACK_ROWS, &[waiting.as_uuid()]).await?;
    let counted = "UPDATE queue SET seq = 40 WHERE run_id = $1";
    ground.change(counted, &[waiting.as_uuid()]).await?;

    let found = ground.breaches(Invariant::Rows).await?;

    let words = "wrote 39 rows for one attempt, only because its connection had no room";
    assert_eq!(found, [breach(waiting, words)]);
    Ok(())
}

#[tokio::test]
async fn a_long_run_of_which_many_steps_were_held_back_once_is_sound() -> Result<()> {
    let ground = Ground::start().await?;
    let long = ground.sleeper("long").await?;
    ground.change(HELD_BACK_STEPS, &[long.as_uuid()]).await?;
    let counted = "UPDATE queue SET seq = 40 WHERE run_id = $1";
    ground.change(counted, &[long.as_uuid()]).await?;

    assert_eq!(ground.breaches(Invariant::Rows).await?, []);
    Ok(())
}

#[tokio::test]
async fn a_backlog_of_minutes_is_sound_while_a_server_is_at_it_and_named_while_none_is()
-> Result<()> {
    let ground = Ground::start().await?;
    let server = ground.serve().await?;
    let events: Vec<Uuid> = (1..=3).map(Uuid::from_u128).collect();
    ground.change(DUE_EVENTS, &[&events]).await?;
    ground.change(DUE_BROADCASTS, &[&events]).await?;
    ground.pass(600).await?;
    let take = "UPDATE outbox SET holder = $2, due_at = moment() + interval '30 s' WHERE id = $1";
    ground.change(take, &[&events[0], server.as_uuid()]).await?;
    let take = "UPDATE broadcasts SET due_at = moment() + interval '30 s' WHERE event_id = $1";
    ground.change(take, &[&events[0]]).await?;

    let while_it_moves = ground.breaches(Invariant::Progress).await?;
    // The server is gone, and so is the event that it had.
    let gone = "DELETE FROM outbox WHERE id = $1";
    ground.change(gone, &[&events[0]]).await?;
    let gone = "DELETE FROM broadcasts WHERE event_id = $1";
    ground.change(gone, &[&events[0]]).await?;
    let found = ground.breaches(Invariant::Progress).await?;

    assert_eq!(while_it_moves, []);
    let each = events[1..].iter().map(|id| EffectId::from_uuid(*id));
    let named = each.flat_map(|id| {
        [
            breach(
                id,
                "is due for more than a minute, and nobody dispatches it",
            ),
            breach(
                id,
                "is due for more than a minute, and nobody answers the waits for it",
            ),
        ]
    });
    assert_eq!(found, sorted(named.collect()));
    Ok(())
}

#[tokio::test]
async fn a_list_that_ends_with_an_error_is_named() -> Result<()> {
    let ground = Ground::start().await?;
    let cell = &ground.world.cell;
    let id = namespaces::ensure(cell.home(), &"default".parse()?).await?;
    refused_deliveries::append(cell, id, "orders", "key-missing", "no number").await?;
    // Reading the words of a stranger as something that they are not is an error of the values.
    let poison = "
        ALTER TABLE refused_deliveries RENAME TO kept_deliveries;
        CREATE VIEW refused_deliveries AS
        SELECT id, namespace_id, flow, at, code, message::integer::text AS message FROM kept_deliveries";
    ground.world.connect().await?.batch_execute(poison).await?;

    let report = ground.check(Invariant::Lists).await?;

    assert_eq!(report.breach_count, 1, "{report:?}");
    let found = &report.breaches[0];
    assert_eq!(
        found.subject,
        format!("refused deliveries of namespace {id}")
    );
    assert!(found.found.starts_with("ends with an error"), "{found:?}");
    Ok(())
}

/// Tables, and the lists that are read from them.
const LISTED: &[(&str, &str)] = &[
    ("kv", "entries"),
    ("reconcile_passes", "reconcile passes of hello"),
    ("replay_plans", "replay plans"),
    ("run_jobs", "run jobs"),
    ("schedules", "schedules"),
    ("ticks", "ticks of hello"),
    ("tokens", "tokens"),
];

#[tokio::test]
async fn the_lists_of_what_operators_set_up_are_read_as_well() -> Result<()> {
    let ground = Ground::start().await?;
    let cell = &ground.world.cell;
    let id = namespaces::ensure(cell.home(), &"default".parse()?).await?;
    let flow = "INSERT INTO flows (namespace_id, name) VALUES ($1, 'hello')";
    ground.change(flow, &[&id]).await?;
    let client = ground.world.connect().await?;
    for (table, _) in LISTED {
        // Whoever reads it divides by zero.
        let poison = format!(
            "ALTER TABLE {table} RENAME TO kept_{table};
             CREATE VIEW {table} AS
             SELECT * FROM kept_{table} WHERE 1 / (SELECT count(*) - count(*) FROM kept_{table}) = 0"
        );
        client.batch_execute(&poison).await?;
    }

    let found = ground.breaches(Invariant::Lists).await?;

    let found: Vec<String> = found.into_iter().map(|it| it.subject).collect();
    let lists = LISTED.iter().map(|(_, list)| list);
    let mut named: Vec<String> = lists
        .map(|list| format!("{list} of namespace {id}"))
        .collect();
    named.sort();
    assert_eq!(found, named);
    Ok(())
}

#[tokio::test]
async fn a_duty_that_is_silent_for_three_of_its_periods_is_named() -> Result<()> {
    let ground = Ground::start().await?;
    let note = |duty, late_after| DutyNote {
        duty,
        finished: Some(Duration::ZERO),
        covered: None,
        failed: None,
        late_after: Duration::from_secs(late_after),
    };
    let notes = [note("alerts", 30), note("resource_scan", 64_800)];
    duties::note(ground.world.cell.home(), "host 1", &notes).await?;
    ground.pass(600).await?;

    let without_servers = ground.breaches(Invariant::Duties).await?;
    ground.serve().await?;
    let found = ground.breaches(Invariant::Duties).await?;

    assert_eq!(without_servers, [], "silence counts while a server lives");
    let [found] = found.as_slice() else {
        anyhow::bail!("{found:?}");
    };
    assert_eq!(found.subject, "alerts");
    assert!(found.found.ends_with("more than 30 s"), "{found:?}");
    Ok(())
}

#[tokio::test]
async fn a_duty_that_no_server_knows_any_more_is_not_missed() -> Result<()> {
    let ground = Ground::start().await?;
    let note = |duty| DutyNote {
        duty,
        finished: Some(Duration::ZERO),
        covered: None,
        failed: None,
        late_after: Duration::from_secs(30),
    };
    // Before an upgrade that called it otherwise.
    duties::note(ground.world.cell.home(), "host 1", &[note("messages")]).await?;
    ground.pass(600).await?;
    ground.serve().await?;
    // By a server of another version, which is silent since.
    duties::note(ground.world.cell.home(), "host 2", &[note("letters")]).await?;
    ground.pass(600).await?;

    let found = ground.breaches(Invariant::Duties).await?;

    let subjects: Vec<&str> = found.iter().map(|it| it.subject.as_str()).collect();
    assert_eq!(subjects, ["letters"]);
    Ok(())
}

#[tokio::test]
async fn every_page_is_read_and_every_breach_counted() -> Result<()> {
    let ground = Ground::start().await?;
    let many = "INSERT INTO queue (run_id, due_at, epoch, seq, partition_date, namespace_id)
                SELECT id, moment(), 1, 1, moment()::date, 1 FROM unnest($1::uuid[]) AS t (id)";
    let ids: Vec<Uuid> = (1..=2_500).map(Uuid::from_u128).collect();
    ground.change(many, &[&ids]).await?;

    let report = ground.check(Invariant::Records).await?;

    assert_eq!(report.looked_at, 2_500);
    assert_eq!(report.breach_count, 2 * 2_500, "neither record nor journal");
    assert_eq!(report.breaches.len(), BREACHES_MAX);
    Ok(())
}
