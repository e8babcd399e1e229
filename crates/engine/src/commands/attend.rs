//! Attending to doubts: who looks into one, what they found so far, and until when it is put off. Nothing
//! of it settles anything. The page of a doubt also says from when on it may be denied, and where to look.

use std::sync::Arc;

use jiff::Timestamp;
use semel_model::request::StepRequest;
use semel_model::{EffectId, Span};
use semel_store::ReadError;
use semel_store::attention::{self, AttendedDoubt, DoubtRemark};
use semel_store::effects::{self, EffectView};

use crate::commands::connection::Actor;
use crate::landing::LandingWindow;
use crate::runtime::Runtime;

/// The most characters of who looks into a doubt.
pub const ASSIGNEE_CHARS_MAX: usize = 200;

/// The longest that a doubt is put off.
const SNOOZE_MAX: Span = Span::from_const_secs(30 * 24 * 3_600);

/// Why nothing was said of a doubt.
#[derive(Debug, thiserror::Error)]
pub enum AttendError {
    /// There is no such effect.
    #[error("there is no such effect")]
    Unknown,
    /// It is not in doubt.
    #[error("the effect is not in doubt: there is nothing left to look into")]
    NotInDoubt,
    /// What was said cannot be stored.
    #[error("{0}")]
    Invalid(String),
    /// The database did not answer in time.
    #[error("it could not be stored: {0}")]
    Unavailable(#[from] ReadError),
}

impl AttendError {
    /// The stable word for this error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unknown => "effect-not-found",
            Self::NotInDoubt => "not-in-doubt",
            Self::Invalid(_) => "body-invalid",
            Self::Unavailable(_) => "database-unavailable",
        }
    }
}

/// What helps an operator to look an effect up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectLookUp {
    /// From when on it may be said that it did not happen, and why not before.
    pub landing: LandingWindow,
    /// Its page at the destination, where the connection says where that is.
    pub find_url: Option<String>,
}

impl Runtime {
    /// Says something of a doubt. Returns everything that is said of it.
    ///
    /// # Errors
    ///
    /// Where the effect is not in doubt, or what is said does not fit.
    pub async fn attend_doubt(
        self: &Arc<Self>,
        by: Actor<'_>,
        effect: EffectId,
        remark: DoubtRemark<'_>,
    ) -> Result<AttendedDoubt, AttendError> {
        let (action, words) = self.in_words(remark)?;
        let found = effects::find(self.cell.of(effect), by.namespace_id, effect).await?;
        let found = found.ok_or(AttendError::Unknown)?;
        let act = by.act(action, &effect.to_string()).because(&words);
        let act = act.map_err(|error| {
            let help = "a note has 1 to 2000 characters, or is null to remove it";
            AttendError::Invalid(format!("{error}: {help}"))
        })?;
        let act = act.about(found.run);
        let cell = self.cell.of(effect);
        let said = attention::remark(cell, by.namespace_id, effect, remark, &act).await?;
        said.ok_or(AttendError::NotInDoubt)
    }

    /// The name of the act, and what the audit record says of it.
    fn in_words(
        self: &Arc<Self>,
        remark: DoubtRemark<'_>,
    ) -> Result<(&'static str, String), AttendError> {
        let invalid = |message: String| Err(AttendError::Invalid(message));
        Ok(match remark {
            DoubtRemark::Assign(None) => ("doubt.assign", "to nobody".to_owned()),
            DoubtRemark::Assign(Some(name)) => {
                let is_empty = name.trim().is_empty() || name.chars().any(char::is_control);
                if is_empty || name.chars().nth(ASSIGNEE_CHARS_MAX).is_some() {
                    return invalid(format!(
                        "`to` is a name of 1 to {ASSIGNEE_CHARS_MAX} characters on one line, or null for nobody"
                    ));
                }
                ("doubt.assign", format!("to {name}"))
            }
            DoubtRemark::Note(None) => ("doubt.note", "removed".to_owned()),
            DoubtRemark::Note(Some(note)) => ("doubt.note", note.to_owned()),
            DoubtRemark::Snooze(None) => ("doubt.snooze", "ended".to_owned()),
            DoubtRemark::Snooze(Some(until)) => {
                let now = self.clock.now();
                let latest = now.checked_add(SNOOZE_MAX.to_duration());
                if until <= now || latest.is_ok_and(|latest| until > latest) {
                    return invalid(
                        "`until` is a time of the next 30 days, or null to end it".to_owned(),
                    );
                }
                ("doubt.snooze", format!("until {until}"))
            }
        })
    }

    /// What helps an operator to look an effect up: by the request that was recorded with its intent, and
    /// the key that the destination was sent.
    #[must_use]
    pub fn look_up(
        self: &Arc<Self>,
        namespace_id: i32,
        view: &EffectView,
        (request, key): (&StepRequest, EffectId),
    ) -> EffectLookUp {
        let destinations = self.vault.destinations(namespace_id);
        let name = request.connection();
        let connection = name.and_then(|name| destinations.connection(name));
        // A task may have been claimed just before the doubt.
        let claimed_by: Timestamp = view.settled_at.unwrap_or(view.intended_at);
        let times = (view.intended_at, claimed_by);
        let find_url = connection.and_then(|connection| connection.find_url.as_ref());
        EffectLookUp {
            landing: self.landing().window(request, connection, times),
            find_url: find_url
                .and_then(|url| url.fill(&key.to_string(), view.external_id.as_deref())),
        }
    }
}
