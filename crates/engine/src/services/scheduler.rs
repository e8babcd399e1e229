//! The scheduler: starts runs at the instants of their schedules.
//!
//! Each instant that a live release's recurrence names is decided once: it has a run, or the reason
//! why not is recorded. Life of an instant:
//!
//! ```text
//! take, by due time ──▶ plan ──▶ accept, under FLOW@INSTANT ══▶ ticks, decided_to, due_at ══▶
//! ```
//!
//! `══▶` is a commit; there are two, in different slots, and no transaction is open between them. There
//! a process may crash: then the schedule is decided again, and its instants find the runs that they
//! have. The key guarantees that. The commit that accepts a run compares the lease on the schedule's row: a server that
//! lost the schedule meanwhile starts nothing any more, so what the next one records of the instant stays true.
//! A schedule that was paused, resumed or woken meanwhile is decided anew.
//!
//! While nothing is due, any number of schedules costs one index read.

pub(crate) mod live;
pub(crate) mod plan;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use jiff::Timestamp;
use semel_flow::schedule::zone_edition;
use semel_model::{ClaimId, FlowName, Key, KeySpace, NamespaceName, RunId, ScheduleId, SessionId};
use semel_store::schedules::{
    self, DecisionBasis, ScheduleDecision, ScheduleLease, Tick, TickVerdict,
};
use semel_store::{ReadError, runs};

use super::service::{HeldBy, Pace, PassError, Service};
use crate::catalogue::Release;
use crate::ingest::{Intake, IntakeError};
use crate::metrics::Metrics;
use crate::runtime::Runtime;
use live::Live;
use plan::{Plan, Room, Stretch, TickAction};

/// How long a server rests where other servers hold what is due, or it cannot be accepted.
pub(crate) const REST: Duration = Duration::from_millis(100);

/// What one go decides, so that it ends within its lease.
pub(crate) const ROOM: Room = Room {
    fires: 256,
    skips: 10_000,
};

/// How many of them are accepted together.
const ACCEPT_TOGETHER: usize = 64;

/// How many instants are looked for together among the runs.
const LOOK_TOGETHER: usize = 1_000;

/// Decides schedules that are due.
pub(super) struct Scheduler {
    runtime: Arc<Runtime>,
    pace: Pace,
    /// How many schedules are taken in one go.
    batch_max: i64,
    live: Live,
}

impl Scheduler {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::from_start(Duration::from_secs(1)),
            batch_max: 64,
            live: Live::default(),
        }
    }

    /// Decides what is due, and says how long nothing will be.
    async fn tick(&mut self) -> Result<Duration, ReadError> {
        self.live.follow(&self.runtime).await?;
        let interval = self.pace.interval;
        let (now, due) = schedules::look(&self.runtime.cell).await?;
        match due {
            Some(due) if due <= now => match self.decide_due().await? {
                0 => Ok(REST),
                _ => Ok(Duration::ZERO),
            },
            Some(due) => Ok(due.duration_since(now).unsigned_abs().min(interval)),
            None => Ok(interval),
        }
    }

    /// Takes schedules that are due and decides them; says how many.
    async fn decide_due(&self) -> Result<usize, ReadError> {
        let runtime = &self.runtime;
        let (session, lease) = (runtime.session().id, runtime.options.lease);
        let taken = schedules::take(&runtime.cell, session, lease, self.batch_max).await?;
        if taken.is_empty() {
            return Ok(0);
        }
        let decided = self.decide_taken(session, &taken).await;
        // Those that were not decided, for whatever reason.
        let ids: Vec<ScheduleId> = taken.iter().map(|schedule| schedule.id).collect();
        schedules::give_back(runtime.cell.every(), session, &ids).await?;
        decided
    }

    async fn decide_taken(
        &self,
        session: SessionId,
        taken: &[schedules::Schedule],
    ) -> Result<usize, ReadError> {
        let (runtime, live) = (&self.runtime, &self.live);
        // What is live may have changed since the last look.
        runtime.catalogue.refresh().await?;
        if runtime.catalogue.version() != live.version {
            return Ok(0);
        }
        let mut planned = vec![];
        let mut room = ROOM;
        let mut is_unread = false;
        for schedule in taken {
            let Some(basis) = live.basis(runtime, schedule).await? else {
                is_unread |= schedule.version <= live.version;
                continue;
            };
            if room.fires == 0 || room.skips == 0 {
                break;
            }
            let plan = Plan::make(&basis, room);
            room = plan.room;
            planned.push((schedule, runtime.with_runs(plan).await?));
        }
        let mut made = runtime.carry_out(session, planned).await?;
        let every = runtime.cell.every();
        let decided = schedules::decide(every, session, &made, grounds(live), None).await?;
        made.retain(|one| decided.contains(&one.id));
        runtime.count_ticks(&made);
        if is_unread {
            // The pass counts as failed, so that the duty is late and another version takes it as well.
            let what = "the live release of a schedule".to_owned();
            return Err(ReadError::Unreadable(what));
        }
        Ok(made.len())
    }
}

impl Service for Scheduler {
    const NAME: &'static str = "scheduler";
    const HELD_BY: HeldBy = HeldBy::Holders(1);

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        Ok(self.tick().await?)
    }

    async fn wake_up(&mut self) {
        self.runtime.signals.scheduled.notified().await;
    }
}

impl Runtime {
    /// An instant that is to be skipped now may have its run already: the server that started the
    /// run crashed before it recorded that, and meanwhile a later instant overtook it. It stays
    /// fired.
    pub(crate) async fn with_runs(self: &Arc<Self>, plan: Plan) -> Result<Plan, ReadError> {
        let mut calls = Vec::with_capacity(plan.calls.len());
        for (release, call) in plan.calls {
            let TickAction::Skip(stretch) = call else {
                calls.push((release, call));
                continue;
            };
            let all = instants_of(&release, &stretch);
            let mut fired = HashSet::new();
            for instants in all.chunks(LOOK_TOGETHER) {
                let flow = &release.flow.name;
                let expected = |nominal| expected_run(&release.namespace, flow, nominal);
                let runs: Vec<RunId> = instants.iter().map(|it| expected(*it)).collect();
                let known = runs::list_snapshots(self.cell.every(), &runs).await?;
                let known: HashSet<RunId> = known.iter().map(|snapshot| snapshot.run).collect();
                let pairs = instants.iter().zip(&runs);
                fired.extend(
                    pairs
                        .filter(|(_, run)| known.contains(run))
                        .map(|(it, _)| *it),
                );
            }
            let split = match fired.is_empty() {
                true => vec![TickAction::Skip(stretch)],
                false => stretch.split(&all, &fired),
            };
            calls.extend(split.into_iter().map(|call| (release.clone(), call)));
        }
        Ok(Plan { calls, ..plan })
    }

    /// Accepts the runs that are planned of schedules that a session took. A schedule of which one could not be accepted
    /// now is left out, and stays due.
    pub(crate) async fn carry_out(
        self: &Arc<Self>,
        session: SessionId,
        planned: Vec<(&schedules::Schedule, Plan)>,
    ) -> Result<Vec<ScheduleDecision>, ReadError> {
        let mut fires = vec![];
        for (at, (_, plan)) in planned.iter().enumerate() {
            for (release, call) in &plan.calls {
                if let TickAction::Fire(nominal) = call {
                    fires.push((at, release.clone(), *nominal));
                }
            }
        }
        let mut outcomes: Vec<Vec<Option<TickVerdict>>> = planned.iter().map(|_| vec![]).collect();
        for together in fires.chunks(ACCEPT_TOGETHER) {
            let wanted: Vec<_> = together
                .iter()
                .map(|(at, release, nominal)| {
                    let lease = planned[*at].0.lease(session);
                    (release.clone(), *nominal, lease)
                })
                .collect();
            let verdicts = self.fire_together(&wanted).await?;
            for ((at, ..), verdict) in together.iter().zip(verdicts) {
                outcomes[*at].push(verdict);
            }
        }
        let made = planned.into_iter().zip(outcomes);
        Ok(made
            .filter_map(|((schedule, plan), outcomes)| {
                decision(
                    schedule,
                    &plan,
                    outcomes.into_iter().collect::<Option<_>>()?,
                )
            })
            .collect())
    }

    /// Starts each instant's run. Nothing for one that could not be accepted now.
    ///
    /// An instant may have one already: it was fired by hand, or the server that decided it before
    /// crashed. Then its key may even have expired, so the run is looked for first.
    async fn fire_together(
        self: &Arc<Self>,
        wanted: &[(Arc<Release>, Timestamp, Option<ScheduleLease>)],
    ) -> Result<Vec<Option<TickVerdict>>, ReadError> {
        let mut expected = Vec::with_capacity(wanted.len());
        for (release, nominal, _) in wanted {
            expected.push(expected_run(
                &release.namespace,
                &release.flow.name,
                *nominal,
            ));
        }
        let known = runs::list_snapshots(self.cell.every(), &expected).await?;
        let mut together = Vec::with_capacity(wanted.len());
        for ((release, nominal, lease), run) in wanted.iter().zip(expected) {
            let known = known.iter().any(|snapshot| snapshot.run == run);
            together.push(async move {
                match known {
                    true => Some(TickVerdict::Fired { run, by: None }),
                    false => self.fire_one(release.clone(), *nominal, *lease).await,
                }
            });
        }
        Ok(join_all(together).await)
    }

    /// Has an instant of a schedule accepted, under the key that it has on every server. With a lease, it is accepted only
    /// while no other server has the schedule: the next may have recorded the instant as skipped.
    pub(crate) async fn receive_instant(
        self: &Arc<Self>,
        release: Arc<Release>,
        nominal: Timestamp,
        lease: Option<ScheduleLease>,
    ) -> Result<Intake, IntakeError> {
        let instant = match semel_model::SeededBug::TickKeyedByNow.is_seeded() {
            true => self.clock.now(),
            false => nominal,
        };
        let key = tick_key(&release.flow.name, instant);
        self.receive_tick(release, nominal, key, None, lease).await
    }

    async fn fire_one(
        self: &Arc<Self>,
        release: Arc<Release>,
        nominal: Timestamp,
        lease: Option<ScheduleLease>,
    ) -> Option<TickVerdict> {
        match self.receive_instant(release, nominal, lease).await {
            Ok(Intake::Accepted(accepted) | Intake::Held(accepted)) => {
                semel_steps::failpoint::failpoint("tick.accepted", &accepted.key.text()).await;
                Some(TickVerdict::Fired {
                    run: accepted.run,
                    by: None,
                })
            }
            // A schedule has no order, so that no tick of it is stale.
            Ok(Intake::Ignored | Intake::Stale(_)) => Some(refused()),
            Err(IntakeError::Unavailable(error)) => {
                tracing::debug!(error, %nominal, "failed to accept a tick; retrying");
                None
            }
            Err(error) => {
                tracing::warn!(%error, %nominal, "a tick was refused");
                Some(refused())
            }
        }
    }

    fn count_ticks(&self, decided: &[ScheduleDecision]) {
        let metrics = &self.metrics;
        for tick in decided.iter().flat_map(|one| &one.ticks) {
            match tick.verdict {
                TickVerdict::Fired { .. } => metrics.ticks_fired.add_one(),
                TickVerdict::Skipped { .. } => {
                    metrics.ticks_skipped.add(tick.instants.unsigned_abs())
                }
            }
        }
    }
}

/// The instants that are skipped together.
fn instants_of(release: &Release, stretch: &Stretch) -> Vec<Timestamp> {
    let before = stretch.first - Duration::from_nanos(1);
    let declared = release.flow.trigger.schedule.as_ref();
    let instants = declared.map(|schedule| schedule.recurrence.after(before));
    let instants = instants.into_iter().flatten();
    instants
        .take_while(|instant| *instant <= stretch.last)
        .collect()
}

pub(crate) fn grounds(live: &Live) -> DecisionBasis {
    DecisionBasis {
        version: live.version,
        zones: zone_edition(),
    }
}

fn refused() -> TickVerdict {
    TickVerdict::Skipped {
        reason: "refused".to_owned(),
    }
}

/// What is recorded of a plan that was carried out.
fn decision(
    schedule: &schedules::Schedule,
    plan: &Plan,
    outcomes: Vec<TickVerdict>,
) -> Option<ScheduleDecision> {
    let mut outcomes = outcomes.into_iter();
    let ticks = plan.calls.iter().map(|(_, call)| match call {
        TickAction::Fire(nominal) => Some(Tick {
            nominal: *nominal,
            last: *nominal,
            instants: 1,
            verdict: outcomes.next()?,
        }),
        TickAction::Skip(stretch) => Some(Tick {
            nominal: stretch.first,
            last: stretch.last,
            instants: stretch.instants,
            verdict: TickVerdict::Skipped {
                reason: stretch.reason.to_owned(),
            },
        }),
    });
    let ticks = ticks.collect::<Option<_>>()?;
    let decided_to = plan.decided_to.max(schedule.decided_to);
    let next = || {
        let release = plan.release.as_ref()?;
        let declared = release.flow.trigger.schedule.as_ref()?;
        declared.recurrence.next_after(decided_to)
    };
    Some(ScheduleDecision {
        id: schedule.id,
        before: schedule.decided_to,
        due_before: schedule.due_at,
        paused_before: schedule.paused_at,
        leased_until: schedule.leased_until,
        decided_to,
        due_at: next().filter(|next| schedule.paused_at.is_none_or(|since| *next <= since)),
        release_id: plan.release.as_ref().map(|release| release.id),
        now: schedule.now,
        stays_paused: schedule.paused_at.is_some(),
        ticks,
    })
}

/// The key of an instant: the same whichever server decides it, and whatever release is live.
pub(crate) fn tick_key(flow: &FlowName, nominal: Timestamp) -> Key {
    let text = format!("{flow}@{nominal}");
    match Key::new(text.into_bytes()) {
        Ok(key) => key,
        Err(error) => unreachable!("a flow's name and an instant make a key: {error}"),
    }
}

/// The run that the instant has if it has one.
pub(crate) fn expected_run(
    namespace: &NamespaceName,
    flow: &FlowName,
    nominal: Timestamp,
) -> RunId {
    let key = tick_key(flow, nominal);
    let claim = ClaimId::derive_in(KeySpace::Schedule, namespace, flow, &key);
    RunId::derive(claim, 0)
}
