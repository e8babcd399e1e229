//! Named effects of scripts.
//!
//! A process begins under a nonce of its own and repeats the begin until it has an answer. It reports
//! under the token that it got, and repeats a report until it has an answer too. None of that can
//! perform the effect twice.

use std::time::Duration;

use reqwest::Method;
use semel_model::EffectId;

use super::transfer::{carry_out, read};
use super::{Answer, Client, ClientError};
use crate::types::{
    BeginOnce, BegunOnce, FailOnce, FinishOnce, FreeOnce, GetOnce, HeartbeatOnce, OnceEffect,
    OnceFilter, Page, RedoOnce, RenewedOnce, ReportedOnce, SettleOnce,
};

/// How long an answer to a process may take: a late one is followed by the next.
const SCRIPT_PATIENCE: Duration = Duration::from_secs(10);

impl Client {
    /// Asks for the right to perform an effect. Repeated by the same holder it gives the same token.
    pub async fn begin_once(&self, begin: &BeginOnce) -> Result<BegunOnce, ClientError> {
        let request = self.ask(Method::POST, &["v1", "once", "begin"]);
        read(request.timeout(SCRIPT_PATIENCE).json(begin)).await
    }

    /// Renews the lease of a hold. `patience` is how long an answer is of use.
    pub async fn heartbeat_once(
        &self,
        beat: &HeartbeatOnce,
        patience: Duration,
    ) -> Result<RenewedOnce, ClientError> {
        let request = self.ask(Method::POST, &["v1", "once", "heartbeat"]);
        read(request.timeout(patience.min(SCRIPT_PATIENCE)).json(beat)).await
    }

    /// Says that an effect happened. Saying it again is safe.
    pub async fn finish_once(
        &self,
        finish: &FinishOnce,
    ) -> Result<Answer<ReportedOnce>, ClientError> {
        let request = self.ask(Method::POST, &["v1", "once", "done"]);
        carry_out(request.timeout(SCRIPT_PATIENCE).json(finish)).await
    }

    /// Says that an effect did not happen, or may have. Saying it again is safe.
    pub async fn fail_once(&self, fail: &FailOnce) -> Result<Answer<ReportedOnce>, ClientError> {
        let request = self.ask(Method::POST, &["v1", "once", "fail"]);
        carry_out(request.timeout(SCRIPT_PATIENCE).json(fail)).await
    }

    /// The effect of a name.
    pub async fn get_once(&self, get: &GetOnce) -> Result<OnceEffect, ClientError> {
        read(self.ask(Method::POST, &["v1", "once", "get"]).json(get)).await
    }

    /// The effect that a key belongs to, as a destination was sent it.
    pub async fn get_once_by_key(&self, key: EffectId) -> Result<OnceEffect, ClientError> {
        read(self.get(&["v1", "once", &key.to_string()])).await
    }

    /// Lists named effects, the latest begun first.
    pub async fn list_once(&self, filter: &OnceFilter) -> Result<Page<OnceEffect>, ClientError> {
        read(self.get(&["v1", "once"]).query(filter)).await
    }

    /// Settles an effect in doubt. Saying it again is safe.
    pub async fn settle_once(
        &self,
        settle: &SettleOnce,
    ) -> Result<Answer<ReportedOnce>, ClientError> {
        let request = self.ask(Method::POST, &["v1", "once", "settle"]);
        carry_out(request.json(settle)).await
    }

    /// Takes a key from a quarantined run that holds it. Saying it again is safe.
    pub async fn free_once(&self, free: &FreeOnce) -> Result<Answer<ReportedOnce>, ClientError> {
        let request = self.ask(Method::POST, &["v1", "once", "free"]);
        carry_out(request.json(free)).await
    }

    /// Lets a done effect be performed again. Saying it again is safe.
    pub async fn redo_once(&self, redo: &RedoOnce) -> Result<Answer<ReportedOnce>, ClientError> {
        let request = self.ask(Method::POST, &["v1", "once", "redo"]);
        carry_out(request.json(redo)).await
    }
}
