//! Seeded bugs: deliberate defects of Semel, each of which a named test must detect.
//!
//! Every bug is one wrong line in the product, behind a switch. `docs/seeded-bugs.md` lists them,
//! with the test that each turns red. Only a build with debug assertions has the switches; in every
//! other build asking costs nothing. `.ci/long chaos` greps what is shipped for them.

/// The variable that names the bug of a process.
#[cfg(debug_assertions)]
const VARIABLE: &str = "SEMEL_SEEDED_BUG";

macro_rules! seeded_bugs {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A deliberate defect of Semel.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum SeededBug {
            $($(#[$doc])* $variant,)*
        }

        impl SeededBug {
            /// The bug's name, as the test build's `SEMEL_SEEDED_BUG` spells it.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

seeded_bugs! {
    // Keys and claims.
    /// Every delivery claims a key of its own.
    KeyNotUnique = "key-not-unique",
    /// A sender is answered although nothing was committed.
    AcknowledgedBeforeCommit = "acknowledged-before-commit",
    /// A known key with another payload passes for a repeat.
    FingerprintNotCompared = "fingerprint-not-compared",
    /// A key expires while its run is active.
    KeyForgottenWhileActive = "key-forgotten-while-active",
    /// A stopped repeat is not recorded.
    DuplicateNotRecorded = "duplicate-not-recorded",
    /// A repeat of a failed run does not resume it where the trigger says so.
    RepeatDoesNotResume = "repeat-does-not-resume",
    /// A replay is carried out although it would do something else than its preview showed.
    ReplayDigestIgnored = "replay-digest-ignored",
    /// A signed body is accepted under any number of ids.
    ReplayedBodyAccepted = "replayed-body-accepted",
    /// Any signature is accepted.
    SignatureNotCompared = "signature-not-compared",
    /// An older version of an object is accepted after a newer one.
    StaleVersionAdmitted = "stale-version-admitted",
    /// A schedule's run is keyed by the time at which it is fired.
    TickKeyedByNow = "tick-keyed-by-now",
    /// What a reconcile pass starts has a key that no delivery carries.
    ReconciledUnderOwnKey = "reconciled-under-own-key",
    /// An event that is dispatched again has another key.
    EventUnderNewId = "event-under-new-id",
    /// A flow that has an event is asked for it again, by the key that is live then.
    ReceiversNotRecorded = "receivers-not-recorded",
    /// A server settles an event that another one has by now.
    EventLeaseNotCompared = "event-lease-not-compared",

    // The ledger.
    /// Writes are let through whatever lease they carry.
    MissingFence = "missing-fence",
    /// An effect is recorded as done before it is performed.
    OutcomeBeforeSend = "outcome-before-send",
    /// Every attempt sends a key of its own.
    NewKeyOnRetry = "new-key-on-retry",
    /// An effect without a guard is sent again after a lost response.
    RetryWithoutGuard = "retry-without-guard",
    /// A lost response is recorded as a failure.
    DoubtTakenForFailure = "doubt-taken-for-failure",
    /// What a probe found counts as absent.
    ProbeFindingIgnored = "probe-finding-ignored",
    /// What a probe found before the first attempt is performed again.
    FoundBeforeIgnored = "found-before-ignored",
    /// What items and branches did is not told of a key.
    StoryOfRunsOnly = "story-of-runs-only",
    /// What a run only reused is told as performed.
    ReuseToldAsDone = "reuse-told-as-done",
    /// What was undone is told as standing.
    UndoNotTold = "undo-not-told",
    /// Of an effect that runs of several days came to, the first entry is told.
    EarliestEntryTold = "earliest-entry-told",
    /// A doubt that an operator gave up is told as known not to have happened.
    GivenUpToldAsFailed = "given-up-told-as-failed",
    /// An operator may say at once that an effect did not happen.
    SettledTooSoon = "settled-too-soon",
    /// The destination's marker is written over, so that a repeat acts again.
    MarkerOverwritten = "marker-overwritten",
    /// The key goes out in the usual header, wherever the flow says.
    KeyMisplaced = "key-misplaced",
    /// A run that fails undoes its first effect first.
    UndoneInForwardOrder = "undone-in-forward-order",
    /// A named effect is told that it is done before it is performed.
    NameDoneBeforeEffect = "name-done-before-effect",
    /// A report about a named effect counts whatever its token.
    NameTokenNotCompared = "name-token-not-compared",
    /// What is settled stays on the list of what waits for a person.
    AttentionNotRemoved = "attention-not-removed",
    /// Every item of a list is another one, whatever its key.
    ItemKeyIgnored = "item-key-ignored",
    /// The generation of an effect that was undone goes with the history of its run.
    GenerationNotKept = "generation-not-kept",

    // Retries, leases and the queue.
    /// The ceiling of the delay does not grow.
    BackoffConstant = "backoff-constant",
    /// Runs that failed together retry together.
    BackoffNotSpread = "backoff-not-spread",
    /// The destination's `Retry-After` is ignored.
    RetryAfterIgnored = "retry-after-ignored",
    /// A take does not count, so that no run is ever quarantined.
    TakesNotCounted = "takes-not-counted",
    /// A session that has expired is renewed.
    ExpiredLeaseRenewed = "expired-lease-renewed",
    /// A mail is sent without a lease.
    SendGateIgnored = "send-gate-ignored",
    /// A run that is woken while a worker holds it falls asleep.
    WakeDropped = "wake-dropped",
    /// A run continues with the live release.
    ReleaseNotPinned = "release-not-pinned",
    /// A run is not cancelled.
    CancelIgnored = "cancel-ignored",
    /// An intent is written whatever was paused since it was decided.
    PauseNotCompared = "pause-not-compared",
    /// A pause returns before the writers that did not see it have ended.
    PauseWritersNotAwaited = "pause-writers-not-awaited",
    /// A gate admits one run too many.
    GateOneTooMany = "gate-one-too-many",
    /// A lock is given to a second run while the first holds it.
    LockGivenTwice = "lock-given-twice",

    // Waits, approvals and tasks.
    /// A later callback replaces the first.
    WaitAnsweredTwice = "wait-answered-twice",
    /// A callback to a run in a worker's hands wakes nobody.
    AnswerWakesNobody = "answer-wakes-nobody",
    /// Half of a callback's code is compared.
    CallbackCodeCutShort = "callback-code-cut-short",
    /// One callback's code opens every wait.
    CallbackCodeNotBound = "callback-code-not-bound",
    /// A later decision replaces the first.
    SecondDecisionWins = "second-decision-wins",
    /// A decision counts whatever its maker was shown.
    DecisionDigestIgnored = "decision-digest-ignored",
    /// A worker answers under any token.
    TaskTokenIgnored = "task-token-ignored",
    /// A worker answers what another one claimed.
    TaskCallerIgnored = "task-caller-ignored",

    // Named effects.
    /// A former holder's report counts.
    NamedTokenIgnored = "named-token-ignored",
    /// A process reports on what another one holds.
    NamedCallerIgnored = "named-caller-ignored",
    /// A named effect in doubt is begun again by the next holder.
    NamedDoubtBegunAgain = "named-doubt-begun-again",
    /// A run that reuses a named effect is not counted, so that the effect is undone under it.
    ReuseNotCounted = "reuse-not-counted",

    // People.
    /// Semel does not announce a run that needs an operator.
    StopUnannounced = "stop-unannounced",
    /// Operators' actions are not recorded.
    AuditOmitted = "audit-omitted",
    /// A run is shown to any namespace.
    NamespaceNotCompared = "namespace-not-compared",
    /// A token's name is enough.
    TokenSecretNotCompared = "token-secret-not-compared",
    /// A token works from outside its networks.
    TokenNetworksIgnored = "token-networks-ignored",
    /// A token works on tasks of every queue.
    TokenQueuesIgnored = "token-queues-ignored",

    // Egress.
    /// Any address may be connected to.
    EgressUnchecked = "egress-unchecked",
    /// A secret that a destination echoes is kept.
    SecretsNotRedacted = "secrets-not-redacted",
    /// Any host key is accepted.
    HostKeyNotCompared = "host-key-not-compared",
}

impl SeededBug {
    /// Whether this process has the bug.
    #[cfg(not(debug_assertions))]
    #[inline]
    pub fn is_seeded(self) -> bool {
        false
    }

    /// Whether this process has the bug.
    #[cfg(debug_assertions)]
    pub fn is_seeded(self) -> bool {
        static SEEDED: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
        let seeded = SEEDED.get_or_init(|| std::env::var(VARIABLE).ok());
        seeded.as_deref() == Some(self.as_str())
    }

    /// A statement, wrong in one place where the bug is seeded. A text without that place stays
    /// right, and the test that looks for the bug says so.
    #[cfg(not(debug_assertions))]
    #[inline]
    pub fn in_text(self, text: &'static str, _right: &str, _wrong: &str) -> &'static str {
        text
    }

    /// A statement, wrong in one place where the bug is seeded. A text without that place stays
    /// right, and the test that looks for the bug says so.
    #[cfg(debug_assertions)]
    pub fn in_text(self, text: &'static str, right: &str, wrong: &str) -> &'static str {
        static TEXTS: std::sync::Mutex<Vec<(&str, &str)>> = std::sync::Mutex::new(Vec::new());
        if !self.is_seeded() {
            return text;
        }
        let Ok(mut texts) = TEXTS.lock() else {
            return text;
        };
        // Statements are known by their text, so each has one wrong form for the whole process.
        if let Some((_, known)) = texts.iter().find(|(of, _)| *of == text) {
            return known;
        }
        let wrong: &'static str = Box::leak(text.replacen(right, wrong, 1).into_boxed_str());
        texts.push((text, wrong));
        wrong
    }
}
