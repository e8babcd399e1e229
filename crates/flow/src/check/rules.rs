//! The rules: what makes a key hold, and an effect safe.
//!
//! Each rule has one code and one page. A rule reports only what is very probably a mistake; an
//! author who disagrees says so with `allow`.

mod effects;
mod keys;
mod needs;
mod order;
mod paths;
mod waits;

use super::Check;
use super::taint::Tracer;
use crate::provider::Provider;
use crate::triggers::provider_of;

impl<'c, 't> Check<'c, 't, '_> {
    pub(super) fn rules(&mut self) {
        self.key_rules();
        self.shared_keys();
        self.condition_rules();
        self.keep_rule();
        self.history_rule();
        self.effect_rules();
        self.order_rules();
        self.wait_rules();
        self.path_rules();
    }

    /// The provider that the webhook names.
    fn provider(&self) -> Option<&'static Provider> {
        let webhook = self.outline.flow.map("trigger")?.map("webhook")?;
        provider_of(webhook)
    }

    fn tracer(&self) -> Tracer<'c, 't> {
        Tracer {
            outline: self.outline,
            clock_fields: self
                .provider()
                .map_or(&[], |provider| provider.clock_fields),
        }
    }
}
