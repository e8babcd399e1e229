//! Effects: what a step changes in the outside world, and how that is made safe.

use semel_model::{Guard, Span};

use crate::context::{CheckContext, KnownConnection};
use crate::outline::{Outline, StepIndex, StepInfo};
use crate::release::KEY_WINDOW;
use crate::steps::EffectKind;
use crate::tree::Record;

/// A step's effect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effect {
    pub(crate) guard: Guard,
    /// Whether the author named the guard.
    pub(crate) stated: bool,
    /// Whether a lost answer that an operator settles is no surprise, though the author did not ask
    /// for it.
    pub(crate) review_is_usual: bool,
    pub(crate) kind: EffectKind,
}

impl Effect {
    /// The effect of a step, if it has one.
    pub(crate) fn of(step: &StepInfo<'_>, context: &CheckContext) -> Option<Self> {
        let kind = step.kind?;
        let rule = kind.effect.as_ref()?;
        let body = step.record.map(kind.name())?;
        let fitting = kind.guards(Some(body), connection(Some(body), context));
        let named: Option<Guard> = step.record.text("guard").and_then(|word| word.parse().ok());
        let guard = named
            .filter(|guard| fitting.contains(guard))
            .or(fitting.first().copied())?;
        let said = step.record.text("does").and_then(EffectKind::parse);
        Some(Self {
            guard,
            stated: step.record.has("guard"),
            review_is_usual: rule.review_is_usual,
            kind: said.unwrap_or_else(|| (rule.effect_kind)(body)),
        })
    }

    /// Whether only an operator or luck keeps it from happening twice.
    pub(crate) const fn is_unguarded(&self) -> bool {
        matches!(self.guard, Guard::Review)
    }
}

/// What is known about the connection that a map names.
pub(crate) fn connection(body: Option<&Record>, context: &CheckContext) -> Option<KnownConnection> {
    let name = body?.text("connection")?;
    context.connections.get(name).copied()
}

/// How long the destination of a step remembers its key.
pub(crate) fn key_window(outline: &Outline<'_>, context: &CheckContext, index: StepIndex) -> Span {
    let known = connection(outline.body(index), context).and_then(|known| known.key_window);
    let said = outline.steps[index].record.span_of("window");
    said.or(known).unwrap_or(KEY_WINDOW)
}
