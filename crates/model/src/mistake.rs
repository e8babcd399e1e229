//! Seeded mistakes: wrong ways to build Semel, to show that the crash tests would notice.
//!
//! Without the `faults` feature none can be switched on, and asking costs nothing.

/// A wrong way to build Semel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Writes are let through whatever lease they carry.
    MissingFence,
    /// An effect is recorded as done before it is performed.
    OutcomeBeforeSend,
    /// Every attempt sends a key of its own.
    NewKeyOnRetry,
}

impl Mistake {
    /// The mistake's name, as the test build's `SEMEL_MISTAKE` spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MissingFence => "missing-fence",
            Self::OutcomeBeforeSend => "outcome-before-send",
            Self::NewKeyOnRetry => "new-key-on-retry",
        }
    }

    /// Whether this process makes the mistake.
    #[cfg(not(feature = "faults"))]
    #[inline]
    pub fn is_seeded(self) -> bool {
        false
    }

    /// Whether this process makes the mistake.
    #[cfg(feature = "faults")]
    pub fn is_seeded(self) -> bool {
        static SEEDED: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
        let seeded = SEEDED.get_or_init(|| std::env::var("SEMEL_MISTAKE").ok());
        seeded.as_deref() == Some(self.as_str())
    }
}
