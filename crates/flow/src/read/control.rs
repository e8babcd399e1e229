//! What holds for a flow and for single steps alike: retries, and the lengths they may have.

use semel_model::{RetryPolicy, Span};

use super::Reader;
use crate::yaml::Node;

const DAY_MS: u64 = 86_400_000;

/// The longest time that anything in a flow lasts.
pub(super) fn year() -> Span {
    Span::from_millis(366 * DAY_MS)
}

impl Reader<'_> {
    /// A retry policy; what it does not say is taken from `base`.
    pub(super) fn retry(&mut self, node: &Node, base: RetryPolicy) -> Option<RetryPolicy> {
        let mut fields = self.fields(node, "`retry`")?;
        let mut policy = base;
        let millisecond = Span::from_millis(1);
        if let Some(node) = fields.find("attempts") {
            let attempts = self.whole(node, "attempts", 1..=100)?;
            policy.attempts = u32::try_from(attempts).unwrap_or(base.attempts);
        }
        if let Some(node) = fields.find("first") {
            policy.first = self.span(node, "first", millisecond..=year())?;
        }
        if let Some(node) = fields.find("most") {
            policy.most = self.span(node, "most", millisecond..=year())?;
        }
        if let Some(node) = fields.find("within") {
            policy.within = self.span(node, "within", millisecond..=year())?;
        }
        self.finish(&fields);
        Some(policy)
    }
}
