//! Approvals: what people are asked, and who may decide.
//!
//! A link is derived from run and step before people are asked, as the address of a callback is,
//! and opens exactly one approval. A decision names the digest of what its maker saw; the first one
//! stands, and every later request gets the same answer.

use std::sync::Arc;

use std::fmt;
use std::str::FromStr;

use semel_model::approval::{ApprovalDecision, ApprovalState, Digest};
use semel_model::storable::excerpt;
use semel_model::{RunId, WaitId};
use semel_steps::failpoint::failpoint;
use semel_store::ReadError;
use semel_store::approvals::{self, ApprovalView, DecisionRequest, DecisionResult};
use semel_store::audit::origin::ActOrigin;

use crate::address::{Domain, read_token};
use crate::runtime::Runtime;
use crate::unavailable::unavailable_from_store;

/// The most characters of a decision's comment.
const COMMENT_CHARS_MAX: usize = 2_000;

/// The name that a person who decides by link gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedName(String);

/// The most characters of a claimed name.
const NAME_CHARS_MAX: usize = 100;

/// The text is no name that can be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to {NAME_CHARS_MAX} characters, and no control characters")]
pub struct ClaimedNameError;

impl FromStr for ClaimedName {
    type Err = ClaimedNameError;

    fn from_str(text: &str) -> Result<Self, ClaimedNameError> {
        let name = text.trim();
        let fits = !name.is_empty() && name.chars().nth(NAME_CHARS_MAX).is_none();
        match fits && !name.chars().any(char::is_control) {
            true => Ok(Self(name.to_owned())),
            false => Err(ClaimedNameError),
        }
    }
}

impl fmt::Display for ClaimedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Who decides.
#[derive(Clone, Debug)]
pub enum Approver {
    /// A person who has the link.
    Link {
        /// The name that they give. Semel does not verify it.
        name: ClaimedName,
    },
    /// The owner of a token.
    Token {
        /// What the token is called.
        name: String,
        /// The groups that its owner belongs to.
        groups: Vec<String>,
    },
    /// A person whom an identity provider signed in.
    Person {
        /// What they are called, with what the provider knows them by.
        name: String,
        /// What the provider knows them by.
        subject: String,
        /// The groups that they belong to.
        groups: Vec<String>,
    },
}

impl Approver {
    /// The name under which a decision is recorded. One that was only claimed says so; and a token may be
    /// called like a person, so the kind is part of it.
    fn name(&self) -> String {
        match self {
            Self::Link { name } => format!("{name} (by link, unverified)"),
            Self::Token { name, .. } => format!("token:{name}"),
            Self::Person { name, .. } => format!("person:{name}"),
        }
    }

    fn actor(&self) -> String {
        match self {
            Self::Link { name } => format!("link:{name} (unverified)"),
            Self::Token { name, .. } => format!("token:{name}"),
            Self::Person { name, .. } => format!("oidc:{name}"),
        }
    }

    /// Whether they are who started the run, under that name.
    fn is(&self, starter: &str) -> bool {
        match self {
            Self::Link { .. } => false,
            Self::Token { name, .. } => name == starter,
            // By what the provider knows them by: what they are called may have changed since.
            Self::Person { subject, .. } => starter.ends_with(&format!(" ({subject})")),
        }
    }

    /// Whether they, or a group of theirs, are among those who are asked.
    #[must_use]
    pub fn is_among(&self, people: &[String]) -> bool {
        match self {
            // A claimed name proves nothing, so it cannot exclude a person either.
            Self::Link { .. } => true,
            Self::Token { name, groups } => {
                people.contains(name) || groups.iter().any(|group| people.contains(group))
            }
            // People choose what they are called at many providers, so the name proves nothing.
            Self::Person { groups, .. } => groups.iter().any(|group| people.contains(group)),
        }
    }
}

/// A person's decision about what they were shown.
#[derive(Clone, Debug)]
pub struct SubmittedDecision {
    /// The digest of what they were shown.
    pub digest: Digest,
    /// Yes or no.
    pub approved: bool,
    /// What they say about it.
    pub comment: Option<String>,
}

/// A decision that stands.
#[derive(Clone, Debug)]
pub struct Decided {
    /// The run that continues.
    pub run: RunId,
    /// The approval.
    pub wait: WaitId,
    /// The decision.
    pub decision: ApprovalDecision,
    /// Whether it stood before.
    pub replayed: bool,
}

/// Why a decision does not stand.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// There is no such approval, or it has ended without a decision. The answer does not say
    /// which.
    #[error("there is nothing to decide here")]
    Unknown,
    /// It is about something else than what is shown.
    #[error("the decision names another digest than that of what is shown")]
    Differs,
    /// It already has another decision.
    #[error("it was decided otherwise")]
    Contrary {
        /// The decision that stands.
        decision: ApprovalDecision,
    },
    /// This person may not decide.
    #[error("{0}")]
    Denied(&'static str),
    /// The link alone is not enough.
    #[error("the link alone is not enough")]
    NeedsLogin,
    /// The database did not answer in time: deciding again is safe.
    #[error("the decision could not be stored: {0}")]
    Unavailable(String),
}

impl DecideError {
    /// The stable word for this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown => "approval-not-found",
            Self::Differs => "approval-differs",
            Self::Contrary { .. } => "approval-decided",
            Self::Denied(_) => "approval-denied",
            Self::NeedsLogin => "approval-needs-login",
            Self::Unavailable(_) => "database-unavailable",
        }
    }
}

unavailable_from_store!(DecideError);

impl Runtime {
    /// What a link leads to; nothing where it leads nowhere, or no longer.
    pub async fn find_approval(
        self: &Arc<Self>,
        token: &str,
    ) -> Result<Option<ApprovalView>, ReadError> {
        let read = read_token(&self.options.secret, Domain::Approval, token);
        // A link that opens nothing takes as long as one to an ended approval.
        let nobody = WaitId::from_uuid(uuid::Uuid::nil());
        let (run, wait, round) = match read.as_deref() {
            Some([run, wait]) => (Some(RunId::from_uuid(*run)), WaitId::from_uuid(*wait), 0),
            Some([run, wait, round]) => {
                let (run, wait) = (RunId::from_uuid(*run), WaitId::from_uuid(*wait));
                (Some(run), wait, round.as_u128())
            }
            _ => (None, nobody, 0),
        };
        let found = approvals::find_by_link(self.cell.of(wait), wait).await?;
        let opens = |view: &ApprovalView| {
            Some(view.run) == run && u128::try_from(view.round) == Ok(round) && is_live(view)
        };
        Ok(found.filter(opens))
    }

    /// Decides an approval.
    pub async fn decide(
        self: &Arc<Self>,
        view: &ApprovalView,
        by: &Approver,
        verdict: SubmittedDecision,
    ) -> Result<Decided, DecideError> {
        may_decide(view, by)?;
        let approved = verdict.approved;
        let click = DecisionRequest {
            wait: view.wait,
            run: view.run,
            digest: verdict.digest,
            approved,
            round: view.round,
            by: by.name(),
            comment: verdict.comment.as_deref().and_then(bounded),
            actor: by.actor(),
            origin: ActOrigin::current(),
        };
        let decided = |decision, replayed| Decided {
            run: view.run,
            wait: view.wait,
            decision,
            replayed,
        };
        failpoint("decide.before", &view.wait.to_string()).await;
        let reply = self.writers.approvals.write(click).await;
        failpoint("decide.after", &view.wait.to_string()).await;
        match reply? {
            DecisionResult::First(decision) => {
                self.signals.wake.notify_one();
                Ok(decided(decision, false))
            }
            DecisionResult::Decided(decision) if decision.approved == approved => {
                Ok(decided(decision, true))
            }
            DecisionResult::Decided(decision) => Err(DecideError::Contrary { decision }),
            DecisionResult::Differs => Err(DecideError::Differs),
            DecisionResult::Over => Err(DecideError::Unknown),
        }
    }
}

/// Whether there is still something to see.
fn is_live(view: &ApprovalView) -> bool {
    match view.state {
        ApprovalState::Open | ApprovalState::Decided => true,
        ApprovalState::Elapsed | ApprovalState::Withdrawn => false,
    }
}

fn may_decide(view: &ApprovalView, by: &Approver) -> Result<(), DecideError> {
    if !is_live(view) {
        return Err(DecideError::Unknown);
    }
    match by {
        Approver::Link { .. } if view.login => return Err(DecideError::NeedsLogin),
        Approver::Link { .. } | Approver::Token { .. } | Approver::Person { .. } => {}
    }
    if view.not_by.as_deref().is_some_and(|starter| by.is(starter)) {
        return Err(DecideError::Denied(
            "the person who started the run may not decide about it",
        ));
    }
    if by.is_among(&view.people) || (view.escalated && by.is_among(&view.escalate)) {
        return Ok(());
    }
    Err(DecideError::Denied(match by.is_among(&view.escalate) {
        true => "you may decide only once half of the time is over",
        false => "the token's name and groups are not among those asked",
    }))
}

/// A comment, as it can be stored; nothing where it is empty.
fn bounded(comment: &str) -> Option<String> {
    let text = excerpt(comment.trim(), COMMENT_CHARS_MAX);
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(name: &str, groups: &[&str]) -> Approver {
        Approver::Person {
            name: format!("{name} (u1)"),
            subject: "u1".to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        }
    }

    #[test]
    fn a_person_is_asked_through_a_group_and_never_by_what_they_call_themselves() {
        let asked = [
            "finance".to_owned(),
            "ada".to_owned(),
            "ada (u1)".to_owned(),
        ];

        assert!(!person("finance", &[]).is_among(&asked));
        assert!(!person("ada", &["staff"]).is_among(&asked));
        assert!(person("eve", &["finance"]).is_among(&asked));
    }

    #[test]
    fn who_started_a_run_is_known_under_another_name_too() {
        assert!(person("Ada", &[]).is("Ada (u1)"));
        assert!(person("Ada Lovelace", &[]).is("Ada (u1)"));
        assert!(!person("Ada", &[]).is("Ada (u2)"));
        assert!(!person("Ada", &[]).is("Ada"));
    }
}
