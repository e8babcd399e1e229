//! `approval` steps, checked: who is asked, and what they are shown.

use jiff::Timestamp;
use semel_model::Span;
use semel_model::approval::{Asked, Digest, OnReject, OnTimeout};
use serde::Serialize;

use crate::expr::{EvalError, Scope};
use crate::template::Template;

/// A question to people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ApprovalStep {
    /// Who may decide: people or groups.
    pub from: Vec<String>,
    /// Who else may, once half of the time is over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub escalate: Vec<String>,
    /// What is decided about; null where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub show: Option<Template>,
    /// How long there is to decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<Span>,
    /// How often people are told again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remind: Option<Span>,
    /// What holds where nobody decided in time.
    pub on_timeout: OnTimeout,
    /// What a rejection means for the run.
    #[serde(skip_serializing_if = "OnReject::is_default")]
    pub on_reject: OnReject,
    /// Whether the link alone is not enough.
    pub login: bool,
    /// Whether whoever started the run may not decide.
    pub not_starter: bool,
}

impl ApprovalStep {
    /// What people are asked, with every hole worked out. `now` is when, `starter` who started the
    /// run, where that is known.
    ///
    /// # Errors
    ///
    /// Where a hole cannot be worked out.
    pub fn render(
        &self,
        scope: &Scope<'_>,
        now: Timestamp,
        starter: Option<&str>,
    ) -> Result<Asked, EvalError> {
        let shown = self.show.as_ref().map(|it| it.render(scope));
        let shown = shown.transpose()?.unwrap_or_default();
        let half = self.within.map(|within| within.to_duration() / 2);
        Ok(Asked {
            from: self.from.clone(),
            escalate: self.escalate.clone(),
            escalate_at: half
                .filter(|_| !self.escalate.is_empty())
                .map(|half| now + half),
            digest: Digest::of(&shown),
            shown,
            login: self.login,
            not_by: starter.filter(|_| self.not_starter).map(str::to_owned),
            remind: self.remind,
            remind_at: self.remind.map(|remind| now + remind.to_duration()),
            on_timeout: self.on_timeout,
            on_reject: self.on_reject,
            round: 0,
        })
    }
}
