//! Approvals: what people are asked, who may decide, and what is told about it.
//!
//! A link is derived from run and step before people are asked, as the address of a callback is,
//! and opens exactly one approval. A decision names the digest of what its maker saw; the first one
//! stands, and everybody who comes later is told the same.

use semel_flow::Flow;
use semel_model::approval::{Asked, Decision, Digest, State, Told};
use semel_model::event::Event;
use semel_model::request::Emission;
use semel_model::{EffectId, RunId, WaitId};
use semel_steps::fault;
use semel_store::ReadError;
use semel_store::approvals::{self, ApprovalView, Click, Reply};
use semel_store::outbox::Emitted;
use serde_json::{Value, json};

use crate::engine::{Engine, Inner};
use crate::fold::{Current, RunState};
use crate::waits::{Domain, make_token, read_token};

/// The most characters of what somebody says about a decision.
const COMMENT_CHARS_MAX: usize = 2_000;

/// Who decides.
#[derive(Clone, Debug)]
pub enum Approver {
    /// Whoever has the link.
    Link,
    /// The owner of a token.
    Token {
        /// What the token is called.
        name: String,
        /// The groups that its owner belongs to.
        groups: Vec<String>,
    },
}

impl Approver {
    /// The name under which a decision is kept.
    fn name(&self) -> &str {
        match self {
            Self::Link => "link",
            Self::Token { name, .. } => name,
        }
    }

    fn actor(&self) -> String {
        match self {
            Self::Link => "link".to_owned(),
            Self::Token { name, .. } => format!("token:{name}"),
        }
    }

    fn is_among(&self, people: &[String]) -> bool {
        match self {
            Self::Link => true,
            Self::Token { name, groups } => {
                people.contains(name) || groups.iter().any(|group| people.contains(group))
            }
        }
    }
}

/// What somebody says to what they were shown.
#[derive(Clone, Debug)]
pub struct Verdict {
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
    /// The run that goes on.
    pub run: RunId,
    /// The approval.
    pub wait: WaitId,
    /// The decision.
    pub decision: Decision,
    /// Whether it stood before.
    pub replayed: bool,
}

/// Why a decision does not stand.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// There is no such approval, or it has ended without a decision. Nobody is told which.
    #[error("there is nothing to decide here")]
    Unknown,
    /// It is about something else than what is shown.
    #[error("the decision names another digest than that of what is shown")]
    Differs,
    /// Somebody decided otherwise before.
    #[error("it was decided otherwise")]
    Contrary {
        /// The decision that stands.
        decision: Decision,
    },
    /// Whoever decides may not.
    #[error("{0}")]
    Denied(&'static str),
    /// The link alone is not enough.
    #[error("the link alone is not enough")]
    NeedsLogin,
    /// The database did not answer in time: deciding again is safe.
    #[error("the decision could not be written down: {0}")]
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

impl Engine {
    /// What a link leads to; nothing where it leads nowhere, or no longer.
    pub async fn find_approval(&self, token: &str) -> Result<Option<ApprovalView>, ReadError> {
        let read = read_token(&self.inner.options.secret, Domain::Approval, token);
        // What opens nothing takes as long as what is over.
        let nobody = WaitId::from_uuid(uuid::Uuid::nil());
        let (run, wait) = match read.as_deref() {
            Some([run, wait]) => (Some(RunId::from_uuid(*run)), WaitId::from_uuid(*wait)),
            _ => (None, nobody),
        };
        let found = approvals::find_by_link(&self.inner.cell, wait).await?;
        Ok(found.filter(|view| Some(view.run) == run && is_live(view)))
    }

    /// Decides an approval.
    pub async fn decide(
        &self,
        view: &ApprovalView,
        by: &Approver,
        verdict: Verdict,
    ) -> Result<Decided, DecideError> {
        may_decide(view, by)?;
        let approved = verdict.approved;
        let click = Click {
            wait: view.wait,
            run: view.run,
            digest: verdict.digest,
            approved,
            by: by.name().to_owned(),
            comment: verdict.comment.as_deref().and_then(bounded),
            actor: by.actor(),
        };
        let decided = |decision, replayed| Decided {
            run: view.run,
            wait: view.wait,
            decision,
            replayed,
        };
        fault::point("decide.before", &view.wait.to_string()).await;
        let reply = self.inner.desks.deciding.write(click).await;
        fault::point("decide.after", &view.wait.to_string()).await;
        match reply.map_err(|error| DecideError::Unavailable(error.to_string()))? {
            Reply::First(decision) => {
                self.inner.wake.notify_one();
                Ok(decided(decision, false))
            }
            Reply::Decided(decision) if decision.approved == approved => {
                Ok(decided(decision, true))
            }
            Reply::Decided(decision) => Err(DecideError::Contrary { decision }),
            Reply::Differs => Err(DecideError::Differs),
            Reply::Over => Err(DecideError::Unknown),
        }
    }
}

/// Whether there is still something to see.
fn is_live(view: &ApprovalView) -> bool {
    match view.state {
        State::Open | State::Decided => true,
        State::Elapsed | State::Withdrawn => false,
    }
}

fn may_decide(view: &ApprovalView, by: &Approver) -> Result<(), DecideError> {
    if !is_live(view) {
        return Err(DecideError::Unknown);
    }
    match by {
        Approver::Link if view.login => return Err(DecideError::NeedsLogin),
        Approver::Token { name, .. } if view.not_by.as_deref() == Some(name) => {
            return Err(DecideError::Denied(
                "whoever started the run may not decide about it",
            ));
        }
        Approver::Link | Approver::Token { .. } => {}
    }
    if by.is_among(&view.people) || (view.escalated && by.is_among(&view.escalate)) {
        return Ok(());
    }
    Err(DecideError::Denied(match by.is_among(&view.escalate) {
        true => "it is not yet yours to decide: half of the time is not over",
        false => "the token is of nobody who was asked, by name or by group",
    }))
}

/// The page that an approval of a run is decided on.
pub(crate) fn address(inner: &Inner, run: RunId, step: &str) -> String {
    let wait = WaitId::derive(run, step);
    let named = [*run.as_uuid(), *wait.as_uuid()];
    let token = make_token(&inner.options.secret, Domain::Approval, &named);
    let base = inner.options.public_url.trim_end_matches('/');
    format!("{base}/approvals/{token}")
}

/// What is told when people are asked, told again, or have decided.
pub(crate) fn announcement(
    flow: &Flow,
    links: &Value,
    state: &RunState,
    event: &Event,
) -> Option<Emitted> {
    let News {
        step,
        name,
        item,
        data,
    } = news(state, event)?;
    let event = format!("semel.approval.{name}");
    let effect = EffectId::derive(state.run, step, &format!("{event}.{item}"), 0);
    let mut about = json!({
        "approval": WaitId::derive(state.run, step),
        "run": state.run,
        "flow": flow.name.as_str(),
        "step": step,
    });
    if name != "decided" {
        about["link"] = links[step]["url"].clone();
    }
    let data = merged(about, data);
    Some(Emitted {
        effect,
        emission: Emission { event, data },
    })
}

/// Something that is told.
struct News<'a> {
    step: &'a str,
    name: &'static str,
    /// What tells it from others of its name.
    item: u32,
    data: Value,
}

fn news<'a>(state: &RunState, event: &'a Event) -> Option<News<'a>> {
    let news = |step, name, item, data| {
        Some(News {
            step,
            name,
            item,
            data,
        })
    };
    if let Event::ApprovalOpened {
        step, asked, until, ..
    } = event
    {
        let data = json!({ "from": asked.from, "until": until });
        return news(step, "requested", 0, with_shown(data, asked));
    }
    if let (Event::ApprovalTold { step, what }, Current::Approving(open)) = (event, &state.current)
    {
        let (name, number, from) = match what {
            Told::Reminded { number, .. } => ("reminded", *number, &open.asked.from),
            Told::Escalated => ("escalated", 0, &open.asked.escalate),
        };
        let data = json!({ "from": from, "until": open.until, "number": number });
        return news(step, name, number, with_shown(data, &open.asked));
    }
    if let Event::ApprovalDecided { step, decision } = event {
        return news(step, "decided", 0, json!(decision));
    }
    if let Event::ApprovalElapsed { step, policy } = event {
        let data = json!({ "approved": null, "by": null, "on_timeout": policy });
        return news(step, "decided", 0, data);
    }
    None
}

fn with_shown(data: Value, asked: &Asked) -> Value {
    merged(
        data,
        json!({ "shown": asked.shown, "digest": asked.digest, "login": asked.login }),
    )
}

fn merged(mut one: Value, other: Value) -> Value {
    if let (Value::Object(one), Value::Object(other)) = (&mut one, other) {
        one.extend(other);
    }
    one
}

/// What somebody said, without what PostgreSQL's text cannot hold; nothing where they said nothing.
fn bounded(comment: &str) -> Option<String> {
    let plain = comment.trim().chars().filter(|c| *c != '\0');
    let text: String = plain.take(COMMENT_CHARS_MAX).collect();
    (!text.is_empty()).then_some(text)
}
