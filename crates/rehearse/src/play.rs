//! Playing cases: all at once, in one schema, with a clock that jumps.
//!
//! ```text
//! deliver ─▶ wait until nothing moves ─┬─ people have something to answer ─▶ they do
//!                                      ├─ something stands still ──────────▶ another process takes over
//!                                      ├─ a late answer can come ──────────▶ it comes
//!                                      ├─ something is due later ──────────▶ the clock jumps there
//!                                      └─ nothing is left ─────────────────▶ what comes after the end
//! ```
//!
//! A run that stands at a crash point is a dead process: another one takes it over once the lease is
//! over, and nothing that the first one knew is used.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use semel_engine::Options;
use semel_flow::{Example, Flow};
use semel_store::Cell;
use semel_store::rehearsals::{
    self, Pulse, RehearsalSchema, StagedConnection, StagedEffect, StagedFlow, StagedRun,
};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::case::{Arrived, Case};
use crate::error::RehearseError;
use crate::fault::{FaultClass, RehearsedFault};
use crate::people;
use crate::process::Process;
use crate::stage::{CaseStage, Hall};

/// How long the cases may take until nothing moves.
const REST_MAX: Duration = Duration::from_secs(30);

/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(4);

/// How often the clock jumps at the most.
const TURNS_MAX: usize = 5_000;

/// What all plays of a rehearsal share.
pub(crate) struct Setting {
    pub(crate) live: Cell,
    pub(crate) schema: RehearsalSchema,
    /// The rehearsal's own view of its schema.
    pub(crate) cell: Cell,
    pub(crate) options: Options,
    pub(crate) flow: Arc<Flow>,
    pub(crate) flows: Vec<StagedFlow>,
    pub(crate) connections: Vec<StagedConnection>,
    /// The steps that have a probe.
    pub(crate) probed: Arc<BTreeSet<String>>,
    /// When the rehearsal must be over.
    pub(crate) deadline: Instant,
    /// The stages of all cases.
    pub(crate) hall: Arc<Hall>,
    /// The process that the last play has left: starting one costs more than most cases.
    pub(crate) process: Mutex<Option<Process>>,
}

/// A case that was played.
pub(crate) struct Played {
    pub(crate) case: Case,
    pub(crate) runs: Vec<StagedRun>,
    pub(crate) effects: Vec<StagedEffect>,
}

/// Plays cases to their end, each in a namespace of its name: no earlier play has one of these.
pub(crate) async fn play(
    setting: &Setting,
    names: Vec<String>,
    plans: Vec<(Arc<Example>, RehearsedFault)>,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Played>, RehearseError> {
    let cases = set_up(setting, names, plans).await?;
    let process = take_process(setting).await?;
    let mut play = Play {
        setting,
        process,
        paused: Vec::new(),
        died: 0,
        cases,
        progress,
    };
    play.run().await?;
    play.collect().await
}

/// The process that an earlier play has left, or a new one.
async fn take_process(setting: &Setting) -> Result<Process, RehearseError> {
    let left = setting.process.lock().await.take();
    match left {
        Some(process) => {
            let reloaded = process.run(|engine| async move { engine.reload().await });
            reloaded.await??;
            Ok(process)
        }
        None => start(setting).await,
    }
}

async fn start(setting: &Setting) -> Result<Process, RehearseError> {
    let (live, schema) = (&setting.live, &setting.schema);
    Process::start(live, schema, &setting.options, &setting.hall).await
}

async fn set_up(
    setting: &Setting,
    names: Vec<String>,
    plans: Vec<(Arc<Example>, RehearsedFault)>,
) -> Result<Vec<Case>, RehearseError> {
    let home = setting.cell.home();
    let made = rehearsals::set_up(home, &names, &setting.flows, &setting.connections).await?;
    let ids: HashMap<String, i32> = made.into_iter().map(|one| (one.name, one.id)).collect();
    let mut cases = Vec::new();
    for (name, (example, fault)) in names.into_iter().zip(plans) {
        let (Some(id), Ok(namespace)) = (ids.get(&name), name.parse()) else {
            return Err(RehearseError::Stopped);
        };
        let answers = Arc::new(example.answers.clone());
        let stage = CaseStage::new(answers, setting.probed.clone(), fault.clone());
        let stage = Arc::new(stage);
        setting.hall.add(*id, stage.clone());
        cases.push(Case {
            example,
            fault,
            namespace_id: *id,
            namespace,
            stage,
            flow: setting.flow.clone(),
            arrived: Arc::new(Arrived::default()),
            epilogue_done: false,
        });
    }
    Ok(cases)
}

struct Play<'a> {
    setting: &'a Setting,
    process: Process,
    paused: Vec<Process>,
    /// How many deliveries died in processes that are gone.
    died: usize,
    cases: Vec<Case>,
    progress: &'a (dyn Fn(usize) + Sync),
}

impl Play<'_> {
    async fn run(&mut self) -> Result<(), RehearseError> {
        self.cases.iter().for_each(|case| case.open(&self.process));
        for _ in 0..TURNS_MAX {
            if Instant::now() > self.setting.deadline {
                return Err(RehearseError::Restless);
            }
            let pulse = self.rest().await?;
            self.report_progress();
            if self.have_people_answer().await?
                || self.take_over().await?
                || self.release(FaultClass::AnswerLate)
            {
                continue;
            }
            if let Some(by) = until_next(&pulse) {
                self.jump(by).await?;
                continue;
            }
            if !self.release(FaultClass::AnswerVeryLate) && !self.play_epilogues().await? {
                return Ok(());
            }
        }
        Err(RehearseError::Restless)
    }

    /// Waits until nothing moves but time.
    async fn rest(&self) -> Result<Pulse, RehearseError> {
        let deadline = Instant::now() + REST_MAX;
        let mut calm = false;
        while Instant::now() < deadline {
            if !self.is_still() {
                calm = false;
                tokio::time::sleep(LOOK_EVERY).await;
                continue;
            }
            let pulse = self
                .process
                .run(|engine| async move { engine.take_pulse().await });
            let pulse = pulse.await??;
            let held = usize::try_from(pulse.held).unwrap_or_default();
            let holds = held <= self.process.stage().count_held();
            // What processes held that were paused has to be taken back first.
            let quiet = holds && pulse.due == 0 && pulse.held_by_others == 0;
            if quiet && calm && self.is_still() {
                return Ok(pulse);
            }
            calm = quiet;
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Err(RehearseError::Restless)
    }

    /// Whether no process has anything in hand but what stands still.
    fn is_still(&self) -> bool {
        let on_their_way = |case: &Case| case.arrived.count_on_their_way();
        let on_their_way: usize = self.cases.iter().map(on_their_way).sum();
        let processes = || std::iter::once(&self.process).chain(&self.paused);
        let died = |process: &Process| process.stage().count_held_deliveries();
        let died: usize = processes().map(died).sum();
        on_their_way <= self.died + died && processes().all(Process::is_at_rest)
    }

    async fn have_people_answer(&self) -> Result<bool, RehearseError> {
        let opens = rehearsals::list_open(self.setting.cell.every()).await?;
        let by_namespace: HashMap<i32, &Case> = self
            .cases
            .iter()
            .map(|case| (case.namespace_id, case))
            .collect();
        let mut answered = false;
        for open in opens {
            let Some(case) = by_namespace.get(&open.namespace_id) else {
                continue;
            };
            let case = (*case).clone();
            let answering = self
                .process
                .run(|engine| people::answer(engine, case, open));
            answered |= answering.await?;
        }
        let contradicted = FaultClass::CallbackContradicted;
        let waits = |case: &&Case| case.fault.class == contradicted;
        for case in self.cases.iter().filter(waits) {
            let case = case.clone();
            let answering = self.process.run(|engine| people::contradict(engine, case));
            answered |= answering.await?;
        }
        Ok(answered)
    }

    /// Another process takes over what stands still, once the lease is over. False where nothing
    /// stands still.
    async fn take_over(&mut self) -> Result<bool, RehearseError> {
        if self.process.stage().count_held() == 0 {
            return Ok(false);
        }
        self.process.pause();
        let outlast = self
            .process
            .run(|engine| async move { engine.outlast_lease().await });
        outlast.await??;
        let next = start(self.setting).await?;
        self.paused.push(std::mem::replace(&mut self.process, next));
        // Only a late answer comes back to a process that was taken over from. The others would keep
        // their connections to the database.
        if !self.cases.iter().any(|case| case.stage.log().late_waiting) {
            let died = |process: &Process| process.stage().count_held_deliveries();
            self.died += self.paused.iter().map(died).sum::<usize>();
            self.paused.clear();
        }
        for case in &self.cases {
            // Its sender got no answer, so it sends again.
            if std::mem::take(&mut case.stage.log().delivery_died) {
                case.deliver_again(&self.process);
            }
        }
        Ok(true)
    }

    /// Lets late answers of a class come. False where there are none.
    fn release(&self, class: FaultClass) -> bool {
        let waits = |case: &&Case| case.fault.class == class && case.stage.log().late_waiting;
        let mut released = false;
        for case in self.cases.iter().filter(waits) {
            case.stage.release_late();
            released = true;
        }
        released
    }

    async fn jump(&self, by: Duration) -> Result<(), RehearseError> {
        let jumped = self
            .process
            .run(move |engine| async move { engine.jump(by).await });
        Ok(jumped.await??)
    }

    async fn play_epilogues(&mut self) -> Result<bool, RehearseError> {
        let mut played = false;
        for case in &mut self.cases {
            if std::mem::replace(&mut case.epilogue_done, true) {
                continue;
            }
            if case.fault.class == FaultClass::DeliveryAfterEnd {
                case.deliver_again(&self.process);
                played = true;
            }
            let case = case.clone();
            let playing = self.process.run(|engine| people::epilogue(engine, case));
            played |= playing.await?;
        }
        Ok(played)
    }

    fn report_progress(&self) {
        let over = self
            .cases
            .iter()
            .filter(|case| case.arrived.run().is_some());
        (self.progress)(over.count());
    }

    /// Reads what became of the cases, and leaves the process to the next play.
    async fn collect(self) -> Result<Vec<Played>, RehearseError> {
        let every = self.setting.cell.every();
        let mut runs: HashMap<i32, Vec<StagedRun>> = HashMap::new();
        for run in rehearsals::list_runs(every).await? {
            runs.entry(run.namespace_id).or_default().push(run);
        }
        let mut effects: HashMap<i32, Vec<StagedEffect>> = HashMap::new();
        for effect in rehearsals::list_effects(every).await? {
            effects.entry(effect.namespace_id).or_default().push(effect);
        }
        *self.setting.process.lock().await = Some(self.process);
        let played = self.cases.into_iter().map(|case| Played {
            runs: runs.remove(&case.namespace_id).unwrap_or_default(),
            effects: effects.remove(&case.namespace_id).unwrap_or_default(),
            case,
        });
        Ok(played.collect())
    }
}

/// How far the clock jumps: a little beyond what is due next, so that what is due at about the same
/// time comes together.
fn until_next(pulse: &Pulse) -> Option<Duration> {
    let distance = pulse.next_due?.duration_since(pulse.now);
    let distance = Duration::try_from(distance).unwrap_or_default();
    Some(distance + distance.mul_f64(0.02) + Duration::from_millis(100))
}
