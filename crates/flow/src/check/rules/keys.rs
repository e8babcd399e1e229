//! Keys: the same for one intent, different for two.

mod null;
mod signed;

use std::ops::Range;

use semel_model::TriggerKind;

use super::super::Check;
use super::super::taint::{Origin, Taint};
use crate::diagnostic::Code;
use crate::expr::Path;
use crate::outline::StepIndex;
use crate::steps::Holds;
use crate::tree::Placed;
use crate::triggers;

/// What a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The name of an intent.
    Trigger,
    /// Which object a delivery is about.
    Object,
    /// How new a delivery is: a time by nature.
    Version,
    /// Whose runs go one after the other.
    Overlap,
    /// Which item of a list.
    Item,
    /// The name of an effect.
    Business,
}

/// An expression that works as a key.
#[derive(Clone, Copy)]
pub(super) struct Key<'t> {
    pub(super) placed: &'t Placed,
    pub(super) role: Role,
    pub(super) at: Option<StepIndex>,
    /// Whether it comes with the webhook, whose signature then matters.
    pub(super) hooked: bool,
}

impl Role {
    const fn noun(self) -> &'static str {
        match self {
            Self::Trigger | Self::Overlap | Self::Item | Self::Business => "key",
            Self::Object => "object",
            Self::Version => "version",
        }
    }
}

impl<'t> Check<'_, 't, '_> {
    pub(super) fn key_rules(&mut self) {
        for key in self.keys() {
            let tainted = self.tainted(&key);
            let constant = !tainted && self.constant(&key);
            if !tainted && !constant {
                self.party(&key);
                self.raw(&key);
                self.null(&key);
            }
            self.unsigned(&key);
        }
    }

    /// Every expression of the flow that works as a key.
    fn keys(&self) -> Vec<Key<'t>> {
        let mut keys = vec![];
        let flow = self.outline.flow;
        let mut add = |placed: Option<&'t Placed>, role, at, hooked| {
            if let Some(placed) = placed {
                keys.push(Key {
                    placed,
                    role,
                    at,
                    hooked,
                });
            }
        };
        if let Some(trigger) = flow.map("trigger") {
            for (spec, start) in triggers::declared(trigger) {
                let hooked = spec.kind == TriggerKind::Webhook;
                add(start.expr("key"), Role::Trigger, None, hooked);
                if let Some(order) = start.map("order") {
                    add(order.expr("object"), Role::Object, None, hooked);
                    add(order.expr("version"), Role::Version, None, hooked);
                }
            }
        }
        for field in ["overlap", "limit"] {
            let record = flow.map(field);
            add(
                record.and_then(|record| record.expr("key")),
                Role::Overlap,
                None,
                false,
            );
        }
        for (index, step) in self.outline.steps.iter().enumerate() {
            add(step.record.expr("key"), Role::Business, Some(index), false);
            if step.holds() == Some(Holds::Items) {
                let body = self.outline.body(index);
                add(
                    body.and_then(|body| body.expr("key")),
                    Role::Item,
                    Some(index),
                    false,
                );
            }
        }
        keys
    }

    /// Whether the key depends on what differs from one sending of an intent to the next.
    fn tainted(&mut self, key: &Key<'t>) -> bool {
        let tracer = self.tracer();
        let expr = &key.placed.expr;
        let mut tainted = false;
        for path in expr.references() {
            let origins = tracer.path(path, key.at);
            let found = origins
                .iter()
                .find_map(|origin| Some((origin, self.taint_code(key, path, origin)?)));
            if let Some((origin, code)) = found {
                let span = key.placed.path_span(self.report.source, path);
                self.say_tainted(key, code, span, origin);
                tainted = true;
            }
        }
        tainted
    }

    /// The code that an origin has in a key, if it has none of its business there.
    fn taint_code(&self, key: &Key<'_>, path: &Path, origin: &Origin) -> Option<Code> {
        let early = matches!(
            key.role,
            Role::Trigger | Role::Object | Role::Version | Role::Overlap
        );
        if early && path.root == "run" {
            return Some(Code::KeyPerRun);
        }
        match origin.taint {
            Taint::Clock if key.role != Role::Version => Some(Code::KeyClock),
            Taint::Random => Some(Code::KeyRandom),
            Taint::Attempt => Some(Code::KeyAttempt),
            Taint::Model => Some(Code::KeyModel),
            Taint::Run | Taint::Release => Some(Code::KeyPerRun),
            Taint::Clock
            | Taint::Header
            | Taint::Query
            | Taint::Constant
            | Taint::Party
            | Taint::Plain => None,
        }
    }

    fn say_tainted(&mut self, key: &Key<'_>, code: Code, span: Range<usize>, origin: &Origin) {
        let noun = key.role.noun();
        let source = match &origin.through {
            Some(step) if !origin.source.starts_with(&format!("steps.{step}")) => {
                format!("`{}`, through step `{step}`", origin.source)
            }
            Some(_) | None => format!("`{}`", origin.source),
        };
        let message = match origin.taint {
            Taint::Clock => format!("this {noun} changes with the time of sending: {source}"),
            Taint::Random => format!("this {noun} is generated anew for every request: {source}"),
            Taint::Attempt => format!("this {noun} counts attempts: {source}"),
            Taint::Model => {
                format!(
                    "a model produces this {noun}, and may word it differently next time: {source}"
                )
            }
            Taint::Release => format!("this {noun} changes with each release: {source}"),
            Taint::Run if key.role == Role::Business => format!(
                "this key belongs to one run, so it protects no more than the derived one: {source}"
            ),
            Taint::Run
            | Taint::Header
            | Taint::Query
            | Taint::Constant
            | Taint::Party
            | Taint::Plain => {
                "a key that reads `run` differs for every run, so every repeat would run".to_owned()
            }
        };
        let help = self.fix(key);
        self.add(code, span, &message, &help);
    }

    /// What to build a key from instead.
    fn fix(&self, key: &Key<'_>) -> String {
        match key.role {
            Role::Trigger if key.hooked => match self.provider() {
                Some(provider) => format!(
                    "leave `key` out: {} provides `{}`",
                    provider.title, provider.key
                ),
                None => "build the key from what the sender repeats, such as `input.id`".to_owned(),
            },
            Role::Trigger => "build the key from what the sender repeats, such as `input.id`".to_owned(),
            Role::Object | Role::Overlap => "name the object, such as `input.order.id`".to_owned(),
            Role::Version => "name what grows with each change, such as `input.version`".to_owned(),
            Role::Item => "name what stays with the item, such as `item.id`".to_owned(),
            Role::Business => {
                "build it from the input, such as `\"invoice:\" + input.order.id`, or leave `key` out"
                    .to_owned()
            }
        }
    }

    /// Whether the key is the same for everything that it should tell apart.
    fn constant(&mut self, key: &Key<'t>) -> bool {
        let span = key.placed.span();
        if key.role == Role::Item {
            let body = key.at.and_then(|at| self.outline.body(at));
            let item = body.and_then(|body| body.word("as")).unwrap_or("item");
            let reads = key.placed.expr.references().iter();
            let own = reads.clone().any(|path| path.root == item);
            if !own {
                let message = format!("this key does not read `{item}`, so all items share it");
                let help = format!("name what identifies each item, such as `{item}.id`");
                self.add(Code::KeyConstant, span, &message, &help);
            }
            return !own;
        }
        let tracer = self.tracer();
        let origins = tracer.expr(&key.placed.expr, key.at);
        if origins.iter().any(|origin| origin.taint != Taint::Constant) {
            return false;
        }
        if matches!(key.role, Role::Overlap | Role::Object | Role::Version) {
            return true;
        }
        let message = if key.role == Role::Business {
            "this key is the same in every run, so only the first would ever have the effect"
        } else {
            "this key is the same for every delivery, so only the first would ever run"
        };
        let help = "name what distinguishes one intent from another, such as `input.id`";
        self.add(Code::KeyConstant, span, message, help);
        true
    }

    /// A key that says who, not what: two orders of one customer would be one.
    fn party(&mut self, key: &Key<'t>) {
        if !matches!(key.role, Role::Trigger | Role::Business) {
            return;
        }
        let tracer = self.tracer();
        let origins = tracer.expr(&key.placed.expr, key.at);
        let varying = origins
            .iter()
            .filter(|origin| origin.taint != Taint::Constant);
        let mut varying = varying.peekable();
        let Some(first) = varying.peek().map(|origin| origin.source.clone()) else {
            return;
        };
        if varying.any(|origin| origin.taint != Taint::Party) {
            return;
        }
        let message =
            format!("this key names who, not what: everything of one `{first}` counts as one");
        let help = "add what the work is about, such as `input.order.id`";
        self.add(Code::KeyParty, key.placed.span(), &message, help);
    }

    /// A key over a whole payload, which repeats do not always send alike.
    fn raw(&mut self, key: &Key<'t>) {
        let provider = self.provider();
        for whole in key.placed.expr.wholes() {
            if whole.root != "input" || key.role == Role::Version {
                continue;
            }
            let volatile = provider.map_or(&[][..], |provider| provider.clock_fields);
            let left = volatile
                .iter()
                .find(|field| !whole.ignored.iter().any(|ignored| ignored == *field));
            let message = match left {
                Some(field) if !whole.ignored.is_empty() => {
                    format!("this key covers `{field}`, which changes with each sending")
                }
                _ if whole.ignored.is_empty() => {
                    "this key covers the whole payload: a repeat that differs in one field counts as new work"
                        .to_owned()
                }
                _ => continue,
            };
            let help = "name the fields that identify the intent, or leave out what changes: `fingerprint(input, [\"sent_at\"])`";
            self.add(Code::KeyRaw, key.placed.span(), &message, help);
        }
    }

    /// Two steps under one business key in one scope: whichever comes second is taken for the first.
    pub(super) fn shared_keys(&mut self) {
        let outline = self.outline;
        let keyed: Vec<(StepIndex, &Placed)> = outline
            .steps
            .iter()
            .enumerate()
            .filter(|(_, step)| step.record.word("scope") != Some("step"))
            .filter_map(|(index, step)| Some((index, step.record.expr("key")?)))
            .collect();
        for (later, (index, placed)) in keyed.iter().enumerate() {
            let first = keyed[..later].iter().find(|(other, earlier)| {
                let scope = |at: StepIndex| outline.steps[at].record.word("scope");
                earlier.expr == placed.expr
                    && scope(*other) == scope(*index)
                    && !outline.exclude_each_other(*other, *index)
            });
            if let Some((first, _)) = first {
                let first = outline.steps[*first].id;
                let message =
                    format!("step `{first}` has this key too, so this effect would count as done");
                let help = "say in the key what the effect is, such as `\"receipt:\" + input.id`";
                self.add(Code::KeyShared, placed.span(), &message, help);
            }
        }
    }
}
