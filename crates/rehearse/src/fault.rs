//! Faults: what a case does to a run besides playing it, and where.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Makes the classes from one line each.
macro_rules! classes {
    ($($(#[$about:meta])* $class:ident = $word:literal;)+) => {
        /// A class of faults.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FaultClass {
            $($(#[$about])* $class,)+
        }

        impl FaultClass {
            /// Every class, in the order of the report.
            pub const ALL: &[Self] = &[$(Self::$class,)+];

            /// Its name.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$class => $word,)+
                }
            }
        }
    };
}

classes! {
    /// Nothing goes wrong.
    None = "none";
    /// The delivery comes twice at the same time.
    DeliveryAtOnce = "delivery-at-once";
    /// The delivery comes again once the first was accepted.
    DeliveryInARow = "delivery-in-a-row";
    /// The delivery comes again after the run has ended.
    DeliveryAfterEnd = "delivery-after-end";
    /// Another payload comes under the same key.
    DeliveryOtherPayload = "delivery-other-payload";
    /// The process ends at a commit point.
    Crash = "crash";
    /// The request is lost on its way: the destination does nothing, and no answer comes.
    AnswerLostBefore = "answer-lost-before";
    /// The destination acts, and its answer is lost.
    AnswerLostAfter = "answer-lost-after";
    /// The answer comes when another process has taken the run over.
    AnswerLate = "answer-late";
    /// The answer comes when the run has ended under another process.
    AnswerVeryLate = "answer-very-late";
    /// The callback comes before the run waits for it.
    CallbackEarly = "callback-early";
    /// The callback comes twice.
    CallbackTwice = "callback-twice";
    /// The callback comes, and a second one contradicts it before the run has read the first.
    CallbackContradicted = "callback-contradicted";
    /// The callback comes after its time.
    CallbackLate = "callback-late";
    /// A person decides twice.
    ApprovalTwice = "approval-twice";
    /// A second decision contradicts the first.
    ApprovalContradicted = "approval-contradicted";
    /// An item of a list comes twice in it: its key makes one of the two.
    ItemTwice = "item-twice";
    /// The destination refuses the effect: what was done before is taken back, where the flow says so.
    EffectRefused = "effect-refused";
    /// Another intent with other key values, whose request is lost: its probe must not be the first's.
    SecondIntent = "second-intent";
}

impl fmt::Display for FaultClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for FaultClass {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for FaultClass {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        let found = Self::ALL.iter().find(|class| class.as_str() == word);
        let unknown = || serde::de::Error::custom(format!("no class of faults: {word}"));
        found.copied().ok_or_else(unknown)
    }
}

/// Where in a run a fault happens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spot {
    /// The step; empty where the run stands at none.
    pub step: String,
    /// The commit point, where it is at one.
    pub point: Option<String>,
    /// Which time, from 1: items of a list come to the same step.
    pub nth: u32,
}

impl Spot {
    /// The nth time at a step.
    #[must_use]
    pub fn at(step: &str, nth: u32) -> Self {
        Self {
            step: step.to_owned(),
            point: None,
            nth,
        }
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.step)?;
        if let Some(point) = &self.point {
            let bar = if self.step.is_empty() { "" } else { "/" };
            write!(f, "{bar}{point}")?;
        }
        match self.nth {
            1 => Ok(()),
            nth => write!(f, "#{nth}"),
        }
    }
}

/// One fault of a case: `crash@invoice/intent.after`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RehearsedFault {
    /// Its class.
    pub class: FaultClass,
    /// Where it happens, where the class happens at a place.
    pub at: Option<Spot>,
    /// Which effect is refused before, so that the run undoes what it did: the fault comes then.
    pub refused: Option<Spot>,
}

/// What the name of a fault ends with that comes while a run undoes what it did.
const REFUSED: &str = " refused)";

impl RehearsedFault {
    /// A fault of the run as a whole.
    #[must_use]
    pub const fn of(class: FaultClass) -> Self {
        Self {
            class,
            at: None,
            refused: None,
        }
    }

    /// A fault at a place.
    #[must_use]
    pub const fn at(class: FaultClass, spot: Spot) -> Self {
        Self {
            class,
            at: Some(spot),
            refused: None,
        }
    }

    /// The same fault in a run that undoes what it did, because the effect at a place is refused.
    #[must_use]
    pub fn while_undoing(self, refused: Spot) -> Self {
        Self {
            refused: Some(refused),
            ..self
        }
    }

    /// Whether the destination refuses the effect of this step first, for the run that came there
    /// as the nth.
    pub(crate) fn refuses(&self, step: &str, nth: u32) -> bool {
        let spot = self.refused.as_ref();
        spot.is_some_and(|spot| spot.step == step && spot.nth == nth)
    }

    /// Whether it happens at this step, for the run that came there as the nth.
    pub(crate) fn is_at(&self, step: &str, nth: u32) -> bool {
        let spot = self.at.as_ref();
        spot.is_some_and(|spot| spot.point.is_none() && spot.step == step && spot.nth == nth)
    }

    /// Whether cases that a filter names may need those in which effects are refused: the faults of
    /// undo steps are found there.
    pub(crate) fn needs_refusals(filter: &str) -> bool {
        let inside = [
            FaultClass::Crash,
            FaultClass::AnswerLostBefore,
            FaultClass::AnswerLostAfter,
            FaultClass::AnswerLate,
            FaultClass::AnswerVeryLate,
        ];
        filter.ends_with(REFUSED) || inside.iter().any(|class| filter == class.as_str())
    }

    /// Whether a filter names it, or its class.
    #[must_use]
    pub fn matches(&self, filter: &str) -> bool {
        filter == self.class.as_str() || filter == self.to_string()
    }
}

impl fmt::Display for RehearsedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Some(spot) => write!(f, "{}@{spot}", self.class),
            None => write!(f, "{}", self.class),
        }?;
        match &self.refused {
            Some(spot) => write!(f, " ({spot}{REFUSED}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_named_by_its_class_and_its_place() {
        let spot = Spot {
            step: "invoice".to_owned(),
            point: Some("intent.after".to_owned()),
            nth: 2,
        };
        let crash = RehearsedFault::at(FaultClass::Crash, spot);

        assert_eq!(crash.to_string(), "crash@invoice/intent.after#2");
        assert!(crash.matches("crash") && crash.matches("crash@invoice/intent.after#2"));
        assert!(!crash.matches("answer-late"));
        let undoing = crash.while_undoing(Spot::at("mail", 1));
        let name = "crash@invoice/intent.after#2 (mail refused)";
        assert_eq!(undoing.to_string(), name);
        assert!(undoing.matches("crash") && undoing.matches(name));
        assert!(RehearsedFault::needs_refusals(name));
    }
}
