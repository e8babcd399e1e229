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
    /// A step that a person settles after a lost answer, without anybody having said so.
    GuardUnstated "guard-unstated" Warning;
    /// An address that is not absolute, or whose host is not fixed.
    UrlInvalid "url-invalid" Error;
    /// A header that cannot be sent, or that is not the author's to send.
    HeaderInvalid "header-invalid" Error;
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
