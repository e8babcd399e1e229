//! The rounds: a slice of bare, of the same rows where there is such a writer, of Semel, and again.
//!
//! Only the ratio of two neighbouring slices means anything on a machine that others use as well,
//! so each round has its own ratio and the middle one counts.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use crate::bare::merged::Merged;
use crate::bare::runner::Runner;
use crate::bare::{self, Rows};
use crate::goal::Goal;
use crate::ground::{Ground, Semel};
use crate::load::{self, Keys, Poster, Sender, Target};
use crate::report::{Measured, Report, Side};

/// How many different keys the repeats bring.
pub(crate) const REPEATED_KEYS: u64 = 5000;

/// How long slices last, and how many rounds there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The length of one slice.
    pub(crate) slice: Duration,
    /// The number of rounds.
    pub(crate) rounds: usize,
}

/// One course of measurements on a ground.
pub(crate) struct Course<'a> {
    /// Where.
    pub(crate) ground: &'a Ground,
    /// How long and how often.
    pub(crate) pace: Pace,
    /// Whether the process that accepts moves the runs as well.
    pub(crate) moving: bool,
    /// Where results go.
    pub(crate) report: &'a mut Report,
}

impl Course<'_> {
    /// Accepting alone is measured where no worker moves the runs, unless that is asked for.
    fn accepting(&self) -> &Semel {
        match self.moving {
            true => &self.ground.semel,
            false => &self.ground.front,
        }
    }

    /// F1.
    pub(crate) async fn accepts(&mut self) -> Result<()> {
        let (plain, semel) = (self.ground.plain.hook(), self.accepting().hook());
        let plain_same = self.ground.plain_same.hook();
        let keys = Keys::Unique;
        for round in 0..=self.pace.rounds {
            let tag = format!("a{round}");
            let bare = self.post(&plain, 32, keys, &tag).await?;
            let same = self.post(&plain_same, 32, keys, &tag).await?;
            let ours = self.post(&semel, 32, keys, &tag).await?;
            self.note(Goal::F1, round, &bare, &ours);
            self.note_same(Goal::F1, round, &same);
        }
        Ok(())
    }

    /// F2.
    pub(crate) async fn duplicates(&mut self) -> Result<()> {
        let (plain, semel) = (self.ground.plain.hook(), self.accepting().hook());
        let keys = Keys::Repeated(REPEATED_KEYS);
        // The first round, which does not count, brings every key for the first time.
        for round in 0..=self.pace.rounds {
            let bare = self.post(&plain, 32, keys, "d").await?;
            let ours = self.post(&semel, 32, keys, "d").await?;
            self.note(Goal::F2, round, &bare, &ours);
        }
        Ok(())
    }

    /// F3, and F4 with F6 and F7.
    pub(crate) async fn runs(&mut self, goal: Goal, in_flight: usize) -> Result<()> {
        let target = self.ground.semel.runs_of("orders");
        for round in 0..=self.pace.rounds {
            let tag = format!("r{in_flight}-{round}");
            let crowd = Runner::crowd(&self.ground.desk, in_flight, &tag, None).await?;
            let bare = self.slice(crowd, None).await?;
            let crowd = self.ground.same_rows.crowd(in_flight, &tag);
            let same = self.slice(crowd, None).await?;
            let ours = self.post(&target, in_flight, Keys::Unique, &tag).await?;
            self.note(goal, round, &bare, &ours);
            self.note_same(goal, round, &same);
            if goal == Goal::F4 && round > 0 {
                let commits = |side: &Measured| side.used.commits as f64 / side.slice.count as f64;
                self.report.add(Goal::F6, commits(&bare), commits(&ours));
                // The generator is no part of either: bare has its driver in this process.
                let cost = |side: &Measured, seconds: f64| seconds * 1e6 / side.slice.count as f64;
                let in_process =
                    |side: &Measured| cost(side, side.used.bench_s + side.used.postgres_s);
                let ours_us = cost(&ours, ours.used.server_s + ours.used.postgres_s);
                self.report.add(Goal::F7, in_process(&bare), ours_us);
                self.report.add_same(Goal::F7, in_process(&same));
            }
        }
        Ok(())
    }

    /// F5.
    pub(crate) async fn alone(&mut self) -> Result<()> {
        let target = self.ground.semel.runs_of("orders");
        for round in 0..=self.pace.rounds {
            let tag = format!("one-{round}");
            let client = bare::connect(&self.ground.bare_url, Rows::Least).await?;
            let merged = Merged::new(client, tag.clone()).await?;
            let bare = self.slice(vec![merged], None).await?;
            let ours = self.post(&target, 1, Keys::Unique, &tag).await?;
            self.detail(Goal::F5, round, &bare, &ours);
            if round > 0 {
                let p50 = |side: &Measured| side.slice.latency_ms(0.5);
                self.report.add(Goal::F5, p50(&bare), p50(&ours));
            }
        }
        Ok(())
    }

    /// F9.
    pub(crate) async fn calls(&mut self) -> Result<()> {
        let target = self.ground.semel.runs_of("calls");
        let peer = self.ground.peer.address();
        for round in 0..=self.pace.rounds {
            let tag = format!("c{round}");
            self.ground.peer.reset().await?;
            let crowd = Runner::crowd(&self.ground.desk, 256, &tag, Some(peer)).await?;
            let bare = self.slice(crowd, None).await?;
            self.ground.peer.reset().await?;
            let crowd = self.ground.same_calls.crowd(256, &tag);
            let same = self.slice(crowd, None).await?;
            self.ground.peer.reset().await?;
            let ours = self.post(&target, 256, Keys::Unique, &tag).await?;
            self.note(Goal::F9, round, &bare, &ours);
            self.note_same(Goal::F9, round, &same);
        }
        Ok(())
    }

    pub(crate) async fn post(
        &self,
        target: &Arc<Target>,
        count: usize,
        keys: Keys,
        tag: &str,
    ) -> Result<Measured> {
        let crowd = Poster::crowd(target, count, keys, tag).await?;
        self.slice(crowd, Some(target.process)).await
    }

    pub(crate) async fn slice<S: Sender>(
        &self,
        crowd: Vec<S>,
        server: Option<u32>,
    ) -> Result<Measured> {
        let before = self.ground.meters.read(server).await?;
        let slice = load::run(crowd, self.pace.slice).await?;
        let used = self.ground.meters.read(server).await?.since(&before);
        Ok(Measured { slice, used })
    }

    /// The first round only warms up.
    pub(crate) fn note(&mut self, goal: Goal, round: usize, bare: &Measured, ours: &Measured) {
        self.detail(goal, round, bare, ours);
        if round > 0 {
            self.report.add(goal, bare.slice.rate(), ours.slice.rate());
        }
    }

    fn note_same(&mut self, goal: Goal, round: usize, same: &Measured) {
        self.report.detail(goal, round, Side::SameRows, same);
        if round > 0 {
            self.report.add_same(goal, same.slice.rate());
        }
    }

    fn detail(&mut self, goal: Goal, round: usize, bare: &Measured, ours: &Measured) {
        self.report.detail(goal, round, Side::Bare, bare);
        self.report.detail(goal, round, Side::Semel, ours);
    }
}
