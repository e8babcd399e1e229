//! The kinds of mistakes that a file can have.

use std::fmt;

use serde::{Serialize, Serializer};

use super::Severity;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident $name:literal $severity:ident;)*) => {
        /// The kind of a mistake: a stable word, with a page of its own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The word.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Its page, `docs/errors/CODE.md`.
            #[must_use]
            pub const fn page(self) -> &'static str {
                match self {
                    $(Self::$variant => include_str!(concat!("../../../../docs/errors/", $name, ".md")),)*
                }
            }

            /// How much it matters.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self { $(Self::$variant => Severity::$severity,)* }
            }
        }
    };
}

codes! {
    /// The file is not YAML.
    YamlSyntax "yaml-syntax" Error;
    /// An anchor or an alias.
    YamlAlias "yaml-alias" Error;
    /// A tag.
    YamlTag "yaml-tag" Error;
    /// More than one document, or none.
    YamlDocuments "yaml-documents" Error;
    /// The file, its depth or the number of its parts is beyond a limit.
    TooLarge "too-large" Error;
    /// A field that stands twice in one map.
    DuplicateField "duplicate-field" Error;
    /// A field that does not exist there.
    UnknownField "unknown-field" Error;
    /// A field that is needed.
    MissingField "missing-field" Error;
    /// Fields that exclude each other.
    FieldConflict "field-conflict" Error;
    /// A list where a text is expected, and the like.
    WrongType "wrong-type" Error;
    /// A text that is none of the values that can stand there.
    WrongValue "wrong-value" Error;
    /// A number that would not be kept as written.
    NumberInexact "number-inexact" Error;
    /// A text that is not an expression.
    ExpressionSyntax "expression-syntax" Error;
    /// A name that is not in scope.
    ExpressionName "expression-name" Error;
    /// A function that does not exist.
    ExpressionFunction "expression-function" Error;
    /// An expression beyond a limit.
    ExpressionCost "expression-cost" Error;
    /// A step that does not exist, or comes later.
    StepUnknown "step-unknown" Error;
    /// Two steps of one name.
    StepDuplicate "step-duplicate" Error;
    /// Two examples of one name.
    ExampleDuplicate "example-duplicate" Error;
    /// A wait for a callback that does not exist.
    WaitUnknown "wait-unknown" Error;
    /// A key that is the same for every delivery.
    KeyConstant "key-constant" Error;
    /// A key that is another one for every run.
    KeyPerRun "key-per-run" Error;
    /// A guard that the step cannot have.
    GuardUnfit "guard-unfit" Error;
    /// A guard that lacks what it rests on.
    GuardIncomplete "guard-incomplete" Error;
    /// A step that an operator settles after a lost answer, though the author did not ask for it.
    GuardUnstated "guard-unstated" Warning;
    /// A connection that does not exist.
    ConnectionUnknown "connection-unknown" Error;
    /// A connection to a kind of destination that the step cannot use.
    ConnectionUnfit "connection-unfit" Error;
    /// An address that is not absolute, or whose host is not fixed.
    UrlInvalid "url-invalid" Error;
    /// A header that cannot be sent, or that is not the author's to send.
    HeaderInvalid "header-invalid" Error;
    /// SQL that is built from values.
    SqlHoles "sql-holes" Error;
    /// A schedule that is none.
    ScheduleInvalid "schedule-invalid" Error;
    /// An operation on values of types that it does not take.
    ExpressionType "expression-type" Error;
    /// A `reconcile` whose keys are not those of the trigger.
    ReconcileKey "reconcile-key" Error;
    /// A `reconcile` that looks further back than keys are remembered.
    ReconcileWindow "reconcile-window" Error;
    /// Runs that are deleted before their keys expire.
    HistoryShort "history-short" Error;
    /// An `input_schema` that cannot be read.
    SchemaInvalid "schema-invalid" Error;
    /// An example that is not what the flow takes.
    ExampleUnfit "example-unfit" Error;
    /// A construct that this build cannot run yet.
    NotInThisBuild "not-in-this-build" Error;
    /// An `allow` for a rule that says nothing there.
    AllowIdle "allow-idle" Warning;
    /// A key that changes with the time of sending.
    KeyClock "key-clock" Error;
    /// A key that is drawn anew for every sending.
    KeyRandom "key-random" Error;
    /// A key that counts attempts.
    KeyAttempt "key-attempt" Error;
    /// A key that a model makes up.
    KeyModel "key-model" Error;
    /// A condition in front of an effect that a model decides.
    ConditionModel "condition-model" Error;
    /// A key that may be absent.
    KeyNull "key-null" Error;
    /// A key that only says who, not what.
    KeyParty "key-party" Warning;
    /// A key over a whole payload.
    KeyRaw "key-raw" Warning;
    /// A key that could be changed in transit.
    KeyUnsigned "key-unsigned" Error;
    /// Two steps under one business key.
    KeyShared "key-shared" Error;
    /// Keys that are forgotten before the source stops repeating.
    KeepShort "keep-short" Warning;
    /// Keys that are forgotten soon, without a word on what they mean when they come back.
    KeepUnsaid "keep-unsaid" Warning;
    /// Retries of an effect that nothing makes safe.
    RetryUnsafe "retry-unsafe" Error;
    /// A guard that rests on a promise which the connection does not make.
    GuardUnhonoured "guard-unhonoured" Error;
    /// Retries that continue after the destination has forgotten the key.
    RetryPastWindow "retry-past-window" Warning;
    /// A probe whose *absent* is believed while the request may still be in flight.
    ProbeEarly "probe-early" Warning;
    /// An effect that cannot be guarded before one that can.
    UnguardedEarly "unguarded-early" Warning;
    /// A call that moves money without an approval.
    MoneyUnapproved "money-unapproved" Warning;
    /// A call that moves money behind an approval that any holder of the link can give.
    MoneyByLink "money-by-link" Error;
    /// An `undo` that reads what may not be there.
    UndoUnknown "undo-unknown" Error;
    /// A wait that may never end.
    WaitEndless "wait-endless" Error;
    /// A response that is held for a run that waits for something else.
    RespondLate "respond-late" Warning;
    /// A loop over effects whose items have no names.
    ForeachKeyMissing "foreach-key-missing" Error;
    /// A loop over a part of a result that may be stored by reference.
    ForeachPart "foreach-part" Warning;
    /// A step that no run reaches.
    StepUnreachable "step-unreachable" Warning;
    /// A result that some paths cannot work out.
    ResultPartial "result-partial" Error;
    /// A step that reads what a skipped one did not make.
    StepSkipped "step-skipped" Warning;
}

/// The codes of rules, which an author can disagree with.
const RULES: &[Code] = &[
    Code::GuardUnstated,
    Code::KeyConstant,
    Code::KeyPerRun,
    Code::KeyClock,
    Code::KeyRandom,
    Code::KeyAttempt,
    Code::KeyModel,
    Code::ConditionModel,
    Code::KeyNull,
    Code::KeyParty,
    Code::KeyRaw,
    Code::KeyUnsigned,
    Code::KeyShared,
    Code::KeepShort,
    Code::KeepUnsaid,
    Code::RetryUnsafe,
    Code::GuardUnhonoured,
    Code::RetryPastWindow,
    Code::ProbeEarly,
    Code::UnguardedEarly,
    Code::MoneyUnapproved,
    Code::MoneyByLink,
    Code::UndoUnknown,
    Code::WaitEndless,
    Code::RespondLate,
    Code::ForeachKeyMissing,
    Code::ForeachPart,
    Code::StepUnreachable,
    Code::ResultPartial,
    Code::StepSkipped,
];

impl Code {
    /// The words of the rules that an author can disagree with.
    #[must_use]
    pub fn rule_names() -> Vec<&'static str> {
        RULES.iter().map(|code| code.as_str()).collect()
    }

    /// Whether an author can disagree.
    #[must_use]
    pub fn is_rule(self) -> bool {
        RULES.contains(&self)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
