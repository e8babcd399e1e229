//! Why an arrival has no run.

use semel_model::{RunId, TriggerKind};

use super::PAYLOAD_BYTES_MAX;
use crate::runtime::LookError;
use crate::unavailable::unavailable_from_store;

/// Why an arrival has no run.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// No live flow has this hook.
    #[error("no live flow has this hook")]
    UnknownHook,
    /// The signature or token of the request does not verify. The sender does not learn why.
    #[error("the delivery's signature or token does not verify")]
    SignatureInvalid,
    /// There is no live flow of this name.
    #[error("there is no live flow of this name")]
    UnknownFlow,
    /// The flow cannot be started in this way.
    #[error("the flow has no {kind} trigger")]
    NoTrigger {
        /// In which way it was to be started.
        kind: TriggerKind,
    },
    /// The payload is not JSON that can be fingerprinted.
    #[error("the payload cannot be read: {0}")]
    NotJson(String),
    /// The payload is too large.
    #[error("the payload has more than {PAYLOAD_BYTES_MAX} bytes")]
    TooLarge,
    /// Neither the caller nor the trigger names a key.
    #[error("the start has no key")]
    NoKey,
    /// The trigger's expression gives no key for this payload. It is recorded.
    #[error("the key cannot be computed: {0}")]
    KeyFailed(String),
    /// The caller names a key, and the trigger has one.
    #[error("the trigger has a key of its own, so a start cannot name another")]
    KeyDeclared,
    /// The payload does not fit the flow's `input_schema`. It is recorded.
    #[error("the input does not fit the flow's schema: {0}")]
    InputInvalid(String),
    /// The key is known with another payload.
    #[error("the key belongs to {run}, which came with another payload")]
    Mismatch {
        /// The run that the key belongs to.
        run: RunId,
    },
    /// Too many runs of the namespace wait for a server. Nothing was started.
    #[error("{most} runs of the namespace wait for a server, as many as may")]
    BacklogFull {
        /// How many may wait.
        most: i32,
    },
    /// The database did not answer in time: sending again is safe.
    #[error("the delivery could not be stored: {0}")]
    Unavailable(String),
}

impl IntakeError {
    /// The stable word for this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownHook => "hook-not-found",
            Self::SignatureInvalid => "signature-invalid",
            Self::UnknownFlow => "flow-not-found",
            Self::NoTrigger { .. } => "trigger-not-declared",
            Self::NotJson(_) => "body-not-json",
            Self::TooLarge => "body-too-large",
            Self::NoKey => "key-missing",
            Self::KeyFailed(_) => "key-failed",
            Self::KeyDeclared => "key-declared",
            Self::InputInvalid(_) => "input-invalid",
            Self::Mismatch { .. } => "payload-mismatch",
            Self::BacklogFull { .. } => "backlog-full",
            Self::Unavailable(_) => "database-unavailable",
        }
    }

    /// Whether intake has recorded the refusal by the time that it says so.
    pub(super) fn is_recorded(&self) -> bool {
        match self {
            Self::KeyFailed(_) | Self::InputInvalid(_) | Self::Mismatch { .. } => true,
            Self::UnknownHook
            | Self::SignatureInvalid
            | Self::UnknownFlow
            | Self::NoTrigger { .. }
            | Self::NotJson(_)
            | Self::TooLarge
            | Self::NoKey
            | Self::KeyDeclared
            | Self::BacklogFull { .. }
            | Self::Unavailable(_) => false,
        }
    }
}

unavailable_from_store!(IntakeError);

impl From<LookError> for IntakeError {
    fn from(error: LookError) -> Self {
        Self::Unavailable(error.to_string())
    }
}
