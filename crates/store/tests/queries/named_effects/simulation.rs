//! Random interleavings of holders, operators and time, beside a model of a few lines.

use anyhow::Result;
use semel_model::named_effect::OnDoubt;
use semel_store::named_effects::{
    self, NamedBegun, NamedHolder, NamedReport, NamedSettlement, Reporter,
};
use semel_testkit::Chance;

use super::{LEASE, NAMESPACE, Name, WINDOW, act, agreeing, caller, done, run, script};
use crate::world::World;

/// How many names are played, each with choices of its own.
const NAMES: u64 = 12;

/// How many moves each has.
const MOVES: usize = 150;

/// Time passes in steps of 500 s against a lease of 600 s, so that the time that the test itself takes
/// decides nothing.
const STEP_SECS: u64 = 500;

/// How long a done or failed effect is remembered in the model, as `KEEP` says.
const KEEP_SECS: u64 = 36_000;

#[derive(Clone, Debug, PartialEq)]
enum State {
    Absent,
    Pending,
    Done,
    Failed,
    InDoubt,
}

/// What should be true of the name.
#[derive(Debug)]
struct Model {
    state: State,
    generation: u32,
    request: Option<usize>,
    holder: usize,
    token: i64,
    /// When a script's lease is over.
    lease_until: Option<u64>,
    heartbeat: u64,
    expires: u64,
    by_operator: bool,
    /// Whether the hold began while its own doubt stood.
    doubted: bool,
    now: u64,
    /// Every token, with its holder.
    given: Vec<(i64, usize)>,
}

impl Model {
    fn new() -> Self {
        Self {
            state: State::Absent,
            generation: 0,
            request: None,
            holder: 0,
            token: 0,
            lease_until: None,
            heartbeat: 0,
            expires: u64::MAX,
            by_operator: false,
            doubted: false,
            now: 0,
            given: Vec::new(),
        }
    }

    /// What time has done, before anything is judged.
    fn refresh(&mut self) {
        if self.state == State::Pending && self.lease_until.is_some_and(|it| it <= self.now) {
            (self.state, self.lease_until) = (State::InDoubt, None);
        }
        if matches!(self.state, State::Done | State::Failed) && self.expires <= self.now {
            (self.state, self.request) = (State::Absent, None);
            self.generation += 1;
        }
    }

    /// Whether a begin of this holder is first.
    fn may_begin(&self, holder: usize, request: usize) -> bool {
        let own = holder == self.holder;
        let agreed = is_retry(holder) && is_retry(self.holder) && self.request == Some(request);
        let gone = self.heartbeat + LEASE.as_millis() / 1_000 + 60 <= self.now;
        match self.state {
            State::Absent => true,
            State::Failed => !own || is_run(holder),
            State::Pending => own,
            State::InDoubt => (own && is_run(holder)) || (!own && agreed && gone),
            State::Done => false,
        }
    }

    fn begin(&mut self, holder: usize, request: usize, token: i64) {
        let own = holder == self.holder && matches!(self.state, State::Pending | State::InDoubt);
        match self.state {
            State::Absent | State::Failed if self.request.is_some_and(|it| it != request) => {
                self.generation += 1;
            }
            State::Absent | State::Failed | State::Pending | State::InDoubt | State::Done => {}
        }
        if own {
            assert_eq!(token, self.token, "the same holder gets the same token");
        } else {
            let highest = self.given.iter().map(|(token, _)| *token).max();
            assert!(
                Some(token) > highest,
                "tokens grow: {token} after {highest:?}"
            );
            self.given.push((token, holder));
        }
        self.doubted = own && (self.state == State::InDoubt || self.doubted);
        if self.state != State::InDoubt {
            self.request = Some(request);
        }
        (self.state, self.holder, self.token) = (State::Pending, holder, token);
        (self.heartbeat, self.by_operator) = (self.now, false);
        self.lease_until = (!is_run(holder)).then(|| self.now + LEASE.as_millis() / 1_000);
    }

    fn end(&mut self, state: State) {
        self.state = state;
        self.lease_until = None;
        self.expires = self.now + KEEP_SECS;
    }
}

/// Holders 0 and 1 ask, 2 and 3 retry, 4 and 5 are runs.
fn holder(number: usize) -> NamedHolder {
    let id = number as u128 + 1;
    match number {
        0 | 1 => script(id),
        2 | 3 => agreeing(id, OnDoubt::Retry),
        _ => run(id),
    }
}

fn is_retry(number: usize) -> bool {
    matches!(number, 2 | 3)
}

fn is_run(number: usize) -> bool {
    number > 3
}

/// A name, what should be true of it, and chance.
struct Game<'a> {
    name: Name<'a>,
    model: Model,
    chance: Chance,
}

impl Game<'_> {
    async fn play(&mut self) -> Result<()> {
        self.model.refresh();
        match self.chance.below(10) {
            0..4 => self.begin().await?,
            4 => self.heartbeat().await?,
            5 => self.report_done().await?,
            6 => self.report_failed().await?,
            7 => self.operate().await?,
            8 => {
                named_effects::lapse(self.name.world.cell.every()).await?;
                named_effects::expire(self.name.world.cell.every(), WINDOW).await?;
            }
            _ => {
                let steps = [1, 1, 2, 3, 80][self.chance.below(5)];
                self.name.pass(steps * STEP_SECS).await?;
                self.model.now += steps * STEP_SECS;
            }
        }
        self.model.refresh();
        let stands = self.name.state().await?.map(|it| format!("{it:?}"));
        let expected = Some(format!("{:?}", self.model.state)).filter(|it| it != "Absent");
        assert_eq!(stands, expected, "{:?}", self.model);
        Ok(())
    }

    async fn begin(&mut self) -> Result<()> {
        let (number, request) = (self.chance.below(6), self.chance.below(2));
        let begun = self
            .name
            .begin(holder(number), &request.to_string())
            .await?;
        let first = matches!(begun, NamedBegun::First(_));
        let allowed = self.model.may_begin(number, request);
        assert_eq!(first, allowed, "{begun:?} {:?}", self.model);
        match (begun, &self.model.state) {
            (NamedBegun::First(hold), _) => {
                self.model.begin(number, request, hold.token);
                assert_eq!(hold.generation, self.model.generation);
            }
            (NamedBegun::Done(_), State::Done)
            | (NamedBegun::Over(_), State::Failed)
            | (NamedBegun::Held(_), State::Pending)
            | (NamedBegun::InDoubt(_), State::InDoubt) => {}
            (begun, _) => panic!("{begun:?} {:?}", self.model),
        }
        Ok(())
    }

    /// The latest token more often than not, otherwise one that was given out at some time.
    fn token(&mut self) -> i64 {
        let given = self.model.given.len();
        match (given, self.chance.below(3)) {
            (0, _) => 1,
            (_, 0) => self.model.given[self.chance.below(given)].0,
            (..) => self.model.token,
        }
    }

    async fn heartbeat(&mut self) -> Result<()> {
        let (token, name) = (self.token(), &self.name);
        let own = name.hold(token, Reporter::Script(caller()));
        let beat = named_effects::heartbeat(name.cell(), own).await?;
        let model = &mut self.model;
        let valid = token == model.token && model.lease_until.is_some();
        assert_eq!(beat.is_some(), valid, "{model:?}");
        if valid {
            model.heartbeat = model.now;
            model.lease_until = Some(model.now + LEASE.as_millis() / 1_000);
        }
        Ok(())
    }

    async fn report_done(&mut self) -> Result<()> {
        let token = self.token();
        let report = self.name.done(token, "x").await?;
        let model = &mut self.model;
        let open = matches!(model.state, State::Pending | State::InDoubt);
        let corrects = model.state == State::Failed && model.by_operator;
        let valid = token == model.token && (open || corrects);
        let recorded = matches!(report, NamedReport::Recorded(_));
        assert_eq!(recorded, valid, "{report:?} {model:?}");
        if valid {
            model.by_operator = false;
            model.end(State::Done);
        }
        Ok(())
    }

    async fn report_failed(&mut self) -> Result<()> {
        let token = self.token();
        let report = self.name.fail(token).await?;
        let model = &mut self.model;
        let own_doubt = model.state == State::InDoubt && is_run(model.holder);
        let valid = token == model.token && (model.state == State::Pending || own_doubt);
        let recorded = matches!(report, NamedReport::Recorded(_));
        assert_eq!(recorded, valid, "{report:?} {model:?}");
        if valid {
            model.end(State::Failed);
        }
        Ok(())
    }

    /// An operator settles, or redoes what is done; a holder frees its hold.
    async fn operate(&mut self) -> Result<()> {
        let (token, name) = (self.token(), &self.name);
        let model = &mut self.model;
        let valid = token == model.token;
        match self.chance.below(4) {
            0 => {
                let settlement = NamedSettlement::Happened(done("x"));
                let report = name.settle(token, settlement).await?;
                let valid = valid && model.state == State::InDoubt;
                assert_eq!(
                    matches!(report, NamedReport::Recorded(_)),
                    valid,
                    "{model:?}"
                );
                if valid {
                    model.end(State::Done);
                    model.by_operator = true;
                }
            }
            1 => {
                let report = name.settle(token, NamedSettlement::DidNotHappen).await?;
                let valid = valid && model.state == State::InDoubt;
                assert_eq!(
                    matches!(report, NamedReport::Recorded(_)),
                    valid,
                    "{model:?}"
                );
                if valid {
                    model.end(State::Failed);
                    model.by_operator = true;
                }
            }
            2 => {
                let cell = name.cell();
                let report = named_effects::redo(cell, NAMESPACE, name.id, token, &act()).await?;
                let valid = valid && model.state == State::Done;
                assert_eq!(
                    matches!(report, NamedReport::Recorded(_)),
                    valid,
                    "{model:?}"
                );
                if valid {
                    (model.state, model.request) = (State::Absent, None);
                    model.generation += 1;
                }
            }
            _ => {
                let own = name.own(token).await?;
                let report = named_effects::free(name.cell(), own).await?;
                let valid = valid && model.state == State::Pending;
                assert_eq!(
                    matches!(report, NamedReport::Recorded(_)),
                    valid,
                    "{model:?}"
                );
                if valid {
                    model.lease_until = None;
                    model.state = match model.doubted {
                        true => State::InDoubt,
                        false => State::Absent,
                    };
                }
            }
        }
        Ok(())
    }
}

#[tokio::test]
async fn no_interleaving_has_two_holders_or_tokens_that_fall() -> Result<()> {
    let world = World::start().await?;
    for number in 1..=NAMES {
        let key = format!("game-{number}");
        let mut game = Game {
            name: Name::new(&world, &key)?,
            model: Model::new(),
            chance: Chance::new(&key),
        };
        for _ in 0..MOVES {
            game.play().await?;
        }
    }
    Ok(())
}
