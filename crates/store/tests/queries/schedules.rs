//! Schedules: what many of them cost while nothing is due, and that what is decided stays decided.

use anyhow::{Context, Result};
use jiff::Timestamp;
use semel_model::{ScheduleId, Span};
use semel_store::schedules::{
    self, DecisionBasis, NewSchedule, ScheduleDecision, Tick, TickVerdict,
};

use crate::world::World;

const GROUNDS: DecisionBasis = DecisionBasis {
    version: 1,
    zones: "2026e",
};

/// Ten thousand schedules that are due tomorrow.
const FILL: &str = "
    INSERT INTO schedules (id, namespace_id, flow, release_id, version, zones, decided_to, due_at)
    SELECT md5(n::text)::uuid, 1, 'flow-' || n, n, 1, '2026e', moment(),
           moment() + interval '1 day' + n * interval '1 second'
      FROM generate_series(1, 10000) AS n;
    ANALYZE schedules";

async fn open(world: &World) -> Result<(ScheduleId, Timestamp)> {
    let id = ScheduleId::derive(&"default".parse()?, &"story".parse()?);
    let live_at = Some("2026-01-01T00:00:00Z".parse()?);
    let new = NewSchedule {
        id,
        namespace_id: 1,
        flow: "story".to_owned(),
        release_id: 1,
        live_at,
    };
    schedules::open(world.cell.every(), &[new], GROUNDS).await?;
    Ok((id, live_at.context("an instant")?))
}

fn decision(id: ScheduleId, before: Timestamp, to: &str) -> Result<ScheduleDecision> {
    let decided_to = to.parse()?;
    let reason = "missed".to_owned();
    Ok(ScheduleDecision {
        id,
        before,
        decided_to,
        due_at: None,
        release_id: Some(1),
        now: decided_to,
        stays_paused: false,
        ticks: vec![Tick {
            nominal: decided_to,
            last: decided_to,
            instants: 1,
            verdict: TickVerdict::Skipped { reason },
        }],
    })
}

#[tokio::test]
async fn ten_thousand_schedules_cost_one_look_at_an_index_while_nothing_is_due() -> Result<()> {
    let world = World::start().await?;
    let client = world.cell.reader().await?;
    client.batch_execute(FILL).await?;

    let (now, due) = schedules::look(&world.cell).await?;
    let statements = semel_store::statements();
    let look = statements
        .iter()
        .find(|(module, text)| *module == "schedules" && text.contains("ORDER BY due_at LIMIT 1"));
    let (_, look) = look.context("the look")?;
    let plan = client.query(&format!("EXPLAIN {look}"), &[]).await?;
    let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
    let plan = plan.join("\n");

    assert!(due.is_some_and(|due| due > now));
    assert!(plan.contains("schedules_by_due"), "{plan}");
    assert!(!plan.contains("Seq Scan on schedules"), "{plan}");
    Ok(())
}

#[tokio::test]
async fn an_instant_decided_by_another_server_is_not_decided_again() -> Result<()> {
    let world = World::start().await?;
    let (id, before) = open(&world).await?;
    let mut taking = schedules::start_taking(&world.cell).await?;

    let batch = taking.take(10).await?;
    let mut other = schedules::start_taking(&world.cell).await?;
    let passed_over = other.take(10).await?.schedules.len();
    let taken = batch.schedules.len();
    let first = [decision(id, before, "2026-02-01T00:00:00Z")?];
    let written = batch.decide(&first, GROUNDS, None).await?;
    let late = other.lock(id).await?.decide(&first, GROUNDS, None).await?;
    let back = first[0].decided_to;
    let back = [decision(id, back, "2026-01-15T00:00:00Z")?];
    let back = other.lock(id).await?.decide(&back, GROUNDS, None).await?;

    assert_eq!((taken, passed_over), (1, 0), "one server has it at a time");
    assert!(written && !late, "from where it stood, once");
    assert!(!back, "never back");
    let ticks = schedules::list_ticks(world.cell.of(id), id, None, 10).await?;
    assert_eq!(ticks.len(), 1);
    Ok(())
}

#[tokio::test]
async fn ticks_are_forgotten_after_their_time() -> Result<()> {
    let world = World::start().await?;
    let (id, before) = open(&world).await?;
    let mut taking = schedules::start_taking(&world.cell).await?;
    let batch = taking.take(10).await?;
    let old = [decision(id, before, "2026-02-01T00:00:00Z")?];
    batch.decide(&old, GROUNDS, None).await?;

    let too_soon =
        schedules::forget(world.cell.every(), Span::from_secs(10 * 365 * 86_400)).await?;
    let after = schedules::forget(world.cell.every(), Span::from_secs(86_400)).await?;

    assert_eq!((too_soon, after), (0, 1));
    Ok(())
}
