//! Runs, keys, effects and the repeats that were stopped.

use std::time::Duration;

use semel_model::event::StepVerb;
use semel_model::{EffectId, FlowName, RunId, Span};

use super::transfer::{carry_out, read};
use super::{Answer, Client, ClientError, PATIENCE};
use crate::types::{
    Amend, Amended, Cancel, Cancelled, ChildRun, ChildRunFilter, DoubtFilter, DropKey, Dropped,
    Duplicate, DuplicateFilter, Effect, EffectFilter, EffectReason, EffectReopened, EraseRun,
    ErasedRuns, KeyAudit, KeyInfo, Page, PreviewReplay, Replay, ReplayPreview, Replayed, Resume,
    Resumed, Run, RunDetail, RunFilter, Settle, Settled, StartRun, Started,
};

/// How long an audit may take: it reads everything that is recorded of a flow.
const AUDIT_PATIENCE: Duration = Duration::from_secs(90);

impl Client {
    /// Starts a run, or finds the one that its key has. The key is in `start`, or the flow's own
    /// expression computes it. With `wait` the answer comes at the run's end, or after that long.
    pub async fn start_run(
        &self,
        flow: &FlowName,
        start: &StartRun,
        wait: Option<Span>,
    ) -> Result<Answer<Started>, ClientError> {
        let path = ["v1", "flows", flow.as_str(), "runs"];
        let mut request = match start.key.as_deref().filter(|key| survives_as_header(key)) {
            Some(key) => self.post(&path, key),
            None => self.ask(reqwest::Method::POST, &path),
        };
        if let Some(span) = wait {
            request = request
                .query(&[("wait", span.to_string())])
                .timeout(patience_for(span));
        }
        carry_out(request.json(start)).await
    }

    /// Lists runs, newest first.
    pub async fn list_runs(&self, filter: &RunFilter) -> Result<Page<Run>, ClientError> {
        read(self.get(&["v1", "runs"]).query(filter)).await
    }

    /// A run with all that happened to it.
    pub async fn get_run(&self, run: RunId) -> Result<RunDetail, ClientError> {
        read(self.get(&["v1", "runs", &run.to_string()])).await
    }

    /// Waits until a run ends or stops for an operator, at most `patience`, and returns its state.
    pub async fn await_run(&self, run: RunId, patience: Span) -> Result<Run, ClientError> {
        let request = self
            .get(&["v1", "runs", &run.to_string(), "wait"])
            .query(&[("for", patience.to_string())])
            .timeout(patience_for(patience));
        read(request).await
    }

    /// Cancels a run.
    pub async fn cancel_run(
        &self,
        run: RunId,
        cancel: &Cancel,
        key: &str,
    ) -> Result<Answer<Cancelled>, ClientError> {
        let path = ["v1", "runs", &run.to_string(), "cancel"];
        carry_out(self.post(&path, key).json(cancel)).await
    }

    /// Erases what was said in the runs of a run's key.
    pub async fn erase_run(
        &self,
        run: RunId,
        erase: &EraseRun,
        key: &str,
    ) -> Result<Answer<ErasedRuns>, ClientError> {
        let path = ["v1", "runs", &run.to_string(), "erase"];
        carry_out(self.post(&path, key).json(erase)).await
    }

    /// Resumes a run that failed or needs review.
    pub async fn resume_run(
        &self,
        run: RunId,
        resume: &Resume,
        key: &str,
    ) -> Result<Answer<Resumed>, ClientError> {
        let path = ["v1", "runs", &run.to_string(), "resume"];
        carry_out(self.post(&path, key).json(resume)).await
    }

    /// Says what a replay of a run would do.
    pub async fn preview_replay(
        &self,
        run: RunId,
        replay: &PreviewReplay,
    ) -> Result<ReplayPreview, ClientError> {
        let path = ["v1", "runs", &run.to_string(), "replay", "preview"];
        read(self.ask(reqwest::Method::POST, &path).json(replay)).await
    }

    /// Replays a run as its preview showed.
    pub async fn replay_run(
        &self,
        run: RunId,
        replay: &Replay,
        key: &str,
    ) -> Result<Answer<Replayed>, ClientError> {
        let path = ["v1", "runs", &run.to_string(), "replay"];
        carry_out(self.post(&path, key).json(replay)).await
    }

    /// Lists items and branches of a run, in order.
    pub async fn list_child_runs(
        &self,
        run: RunId,
        filter: &ChildRunFilter,
    ) -> Result<Page<ChildRun>, ClientError> {
        let path = ["v1", "runs", &run.to_string(), "child-runs"];
        read(self.get(&path).query(filter)).await
    }

    /// Lists effects, newest first.
    pub async fn list_effects(&self, filter: &EffectFilter) -> Result<Page<Effect>, ClientError> {
        read(self.get(&["v1", "effects"]).query(filter)).await
    }

    /// One effect.
    pub async fn get_effect(&self, effect: EffectId) -> Result<Effect, ClientError> {
        read(self.get(&["v1", "effects", &effect.to_string()])).await
    }

    /// Lists what is in doubt, oldest first.
    pub async fn list_doubts(&self) -> Result<Page<Effect>, ClientError> {
        self.list_doubts_by(&DoubtFilter::default()).await
    }

    /// Lists a page of what is in doubt, oldest first.
    pub async fn list_doubts_by(&self, filter: &DoubtFilter) -> Result<Page<Effect>, ClientError> {
        read(self.get(&["v1", "doubts"]).query(filter)).await
    }

    /// Settles an effect that is in doubt.
    pub async fn settle_effect(
        &self,
        effect: EffectId,
        settle: &Settle,
        key: &str,
    ) -> Result<Answer<Settled>, ClientError> {
        let path = ["v1", "effects", &effect.to_string(), "settle"];
        carry_out(self.post(&path, key).json(settle)).await
    }

    /// Has one done effect of an ended run undone, or performed again under a new key.
    pub async fn reopen_effect(
        &self,
        effect: EffectId,
        verb: StepVerb,
        why: &EffectReason,
        key: &str,
    ) -> Result<Answer<EffectReopened>, ClientError> {
        let path = ["v1", "effects", &effect.to_string(), verb.as_str()];
        carry_out(self.post(&path, key).json(why)).await
    }

    /// Corrects the result that an operator gave an effect.
    pub async fn amend_effect(
        &self,
        effect: EffectId,
        amend: &Amend,
        key: &str,
    ) -> Result<Answer<Amended>, ClientError> {
        let path = ["v1", "effects", &effect.to_string(), "amend"];
        carry_out(self.post(&path, key).json(amend)).await
    }

    /// Lists repeats that were stopped, those of the latest minute first; of one run or of all.
    pub async fn list_duplicates(
        &self,
        run: Option<RunId>,
    ) -> Result<Page<Duplicate>, ClientError> {
        let filter = DuplicateFilter {
            run,
            ..DuplicateFilter::default()
        };
        self.list_duplicates_by(&filter).await
    }

    /// Lists a page of stopped repeats, those of the latest minute first.
    pub async fn list_duplicates_by(
        &self,
        filter: &DuplicateFilter,
    ) -> Result<Page<Duplicate>, ClientError> {
        read(self.get(&["v1", "duplicates"]).query(filter)).await
    }

    /// Lists repeats of a key that were stopped, in any flow.
    pub async fn list_duplicates_of_key(&self, key: &str) -> Result<Page<Duplicate>, ClientError> {
        read(self.get(&["v1", "duplicates"]).query(&[("key", key)])).await
    }

    /// What is known of a key.
    pub async fn get_key(&self, flow: &FlowName, key: &str) -> Result<KeyInfo, ClientError> {
        let request = self.get(&["v1", "keys", flow.as_str()]);
        read(request.query(&[("key", key)])).await
    }

    /// What real traffic says about a flow's keys. It may take a while.
    pub async fn audit_keys(&self, flow: &FlowName, window: Span) -> Result<KeyAudit, ClientError> {
        let request = self.get(&["v1", "keys", flow.as_str(), "audit"]);
        let request = request.query(&[("window", window.to_string())]);
        read(request.timeout(AUDIT_PATIENCE)).await
    }

    /// Frees a key, so that the next delivery makes a new run.
    pub async fn drop_key(
        &self,
        flow: &FlowName,
        key: &str,
        drop: &DropKey,
        command_key: &str,
    ) -> Result<Answer<Dropped>, ClientError> {
        let request = self.post(&["v1", "keys", flow.as_str(), "drop"], command_key);
        carry_out(request.query(&[("key", key)]).json(drop)).await
    }
}

/// The server waits as long as it was asked to; its answer then has the usual time.
fn patience_for(span: Span) -> Duration {
    span.to_duration() + PATIENCE
}

/// Whether a key is the same key after it went through a header. Spaces at its ends are not, so
/// such a key goes in the body alone.
fn survives_as_header(key: &str) -> bool {
    key.trim() == key && !key.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_a_header_would_change_stays_out_of_it() {
        assert!(survives_as_header("order 42/ä"));
        assert!(!survives_as_header(" order"));
        assert!(!survives_as_header("order\n42"));
    }
}
