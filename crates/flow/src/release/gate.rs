//! What the runs of a flow pass before their first step, checked.

use semel_model::Span;
use semel_model::gate::{GatePolicy, GateRules, Rate};
use serde::Serialize;

use crate::expr::Expr;

/// Runs of one object, one at a time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Overlap {
    /// The object; the flow as a whole, when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Expr>,
    /// What happens to the later run.
    pub policy: GatePolicy,
}

/// How many runs, and how fast.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// What the limit is counted by; the flow as a whole, when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Expr>,
    /// The most runs that are active together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How often runs may start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How long an object must be quiet before its newest run starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debounce: Option<Span>,
    /// How much sooner a run that is due begins than those of other flows, in steps.
    #[serde(skip_serializing_if = "is_zero")]
    pub priority: i8,
}

impl Overlap {
    /// What its gate goes by.
    #[must_use]
    pub const fn rules(&self) -> GateRules {
        GateRules::one_at_a_time(self.policy)
    }
}

impl Limit {
    /// What its gate goes by; nothing if it only says what goes first.
    #[must_use]
    pub fn rules(&self) -> Option<GateRules> {
        let Self {
            concurrency,
            rate,
            debounce,
            ..
        } = *self;
        let says = concurrency.is_some() || rate.is_some() || debounce.is_some();
        says.then_some(GateRules {
            policy: GatePolicy::Queue,
            concurrency,
            rate,
            debounce,
        })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands references")]
const fn is_zero(priority: &i8) -> bool {
    *priority == 0
}
