//! The faults: what happens to the server that holds a run.

/// What happens to the server that holds the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    Kill,
    Pause,
    Cut,
    Postgres,
}

impl Fault {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Pause => "pause",
            Self::Cut => "cut",
            Self::Postgres => "postgres",
        }
    }

    /// The words of the page.
    pub(crate) fn about(self) -> &'static str {
        match self {
            Self::Kill => "server killed",
            Self::Pause => "server paused past its lease",
            Self::Cut => "database connections cut",
            Self::Postgres => "PostgreSQL killed",
        }
    }

    /// The lease of the servers, in seconds. One that is killed or paused is followed once its lease is
    /// over, so that lease is short. One that only loses its database for a moment must not lose its
    /// lease with it.
    pub(crate) fn lease_secs(self) -> u32 {
        match self {
            Self::Kill | Self::Pause => 2,
            Self::Cut | Self::Postgres => 10,
        }
    }
}
