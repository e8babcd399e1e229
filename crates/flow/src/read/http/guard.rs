//! How an `http` step is made safe to meet twice.

use semel_model::{Guard, Span};

use super::super::control::year;
use super::super::fields::Fields;
use super::super::names::{Names, Place};
use super::super::{Reader, optional};
use crate::diagnostic::Code;
use crate::release::{HttpGuard, Method, Probe};
use crate::yaml::Node;

/// How long most destinations remember a key.
const WINDOW_SECS: u64 = 24 * 3_600;
/// Quiet time before a probe asks.
const AFTER_SECS: u64 = 5;

/// The fields of a step that speak about its guard.
struct Parts<'n> {
    guard: Option<&'n Node>,
    window: Option<&'n Node>,
    because: Option<&'n Node>,
    probe: Option<&'n Node>,
}

impl Reader<'_> {
    /// The guard of a step. The method is absent where the request could not be read; what can be
    /// said without it is said all the same.
    pub(super) fn http_guard(
        &mut self,
        step: &mut Fields<'_>,
        method: Option<Method>,
        names: Names<'_>,
    ) -> Option<HttpGuard> {
        let parts = Parts {
            guard: step.find("guard"),
            window: step.find("window"),
            because: step.find("because"),
            probe: step.find("probe"),
        };
        let help = "choose one of: key, natural, probe, review, repeat";
        let named = match parts.guard {
            Some(node) => Some(self.parsed::<Guard>(node, "guard", help)?),
            None => None,
        };
        let fits = self.refuse_stray_parts(step, &parts, named);
        let guard = match (named, method) {
            (Some(guard), _) => self.named_guard(step, &parts, guard, method, names),
            (None, Some(method)) if fits => Some(self.default_guard(step, method)),
            (None, Some(_) | None) => None,
        };
        guard.filter(|_| fits)
    }

    fn default_guard(&mut self, step: &Fields<'_>, method: Method) -> HttpGuard {
        let guard = method.default_guard();
        if guard == HttpGuard::Review {
            let message = format!(
                "a lost answer to this `{}` waits for a person",
                method.field()
            );
            let help = "add `guard: key` if the destination honours Idempotency-Key, \
                        `guard: probe` if a read can tell, or `guard: review` if this is meant";
            self.report(Code::GuardUnstated, step.name_span("http"), &message, help);
        }
        guard
    }

    fn named_guard(
        &mut self,
        step: &Fields<'_>,
        parts: &Parts<'_>,
        guard: Guard,
        method: Option<Method>,
        names: Names<'_>,
    ) -> Option<HttpGuard> {
        let span = parts
            .guard
            .map_or_else(|| step.span.clone(), |node| node.span.clone());
        if let Some(method) = method.filter(|method| method.is_read()) {
            let message = format!("a `{}` has no effect to guard", method.field());
            self.report(Code::GuardUnfit, span, &message, "leave `guard` out");
            return None;
        }
        match guard {
            Guard::Transaction => {
                let message = "an `http` step cannot commit together with its marker";
                let help = "choose one of: key, natural, probe, review, repeat";
                self.report(Code::GuardUnfit, span, message, help);
                None
            }
            Guard::Key => {
                let window = parts
                    .window
                    .map_or(Some(Span::from_secs(WINDOW_SECS)), |node| {
                        self.span(node, "window", Span::from_secs(1)..=year())
                    });
                Some(HttpGuard::Key { window: window? })
            }
            Guard::Natural => Some(HttpGuard::Natural),
            Guard::Review => Some(HttpGuard::Review),
            Guard::Repeat => self.repeat(parts, span),
            Guard::Probe => self.probe(parts, span, names),
        }
    }

    fn repeat(&mut self, parts: &Parts<'_>, span: std::ops::Range<usize>) -> Option<HttpGuard> {
        let Some(node) = parts.because else {
            let message = "`guard: repeat` needs a reason";
            let help = "add `because: why a second call does no harm`";
            self.report(Code::GuardIncomplete, span, message, help);
            return None;
        };
        let because = self.text(node, "because")?.trim().to_owned();
        if because.is_empty() {
            let help = "say why a second call does no harm";
            self.report(
                Code::GuardIncomplete,
                node.span.clone(),
                "the reason is empty",
                help,
            );
            return None;
        }
        Some(HttpGuard::Repeat { because })
    }

    fn probe(
        &mut self,
        parts: &Parts<'_>,
        span: std::ops::Range<usize>,
        names: Names<'_>,
    ) -> Option<HttpGuard> {
        let Some(node) = parts.probe else {
            let message = "`guard: probe` needs a `probe` that tells whether it happened";
            let help =
                "add `probe: { http: { get: \"https://…\" }, found: probe.json.size() > 0 }`";
            self.report(Code::GuardIncomplete, span, message, help);
            return None;
        };
        let mut fields = self.fields(node, "`probe`")?;
        let http = self.need(&mut fields, "http", "{ get: \"https://…\" }");
        let request = http.and_then(|node| self.request(node, names));
        let found = self.need(&mut fields, "found", "probe.json.size() > 0");
        let found = found.and_then(|node| self.condition(node, "found", names.at(Place::Probe)));
        let result = fields
            .find("result")
            .map(|node| self.expr(node, "result", names.at(Place::Probe)));
        let after = fields
            .find("after")
            .map_or(Some(Span::from_secs(AFTER_SECS)), |node| {
                self.span(
                    node,
                    "after",
                    Span::from_millis(0)..=Span::from_secs(86_400),
                )
            });
        self.finish(&fields);
        let request = request?;
        if !request.method.is_read() {
            let message = format!("a probe reads, and `{}` does not", request.method.field());
            let span = fields.name_span("http");
            self.report(Code::GuardUnfit, span, &message, "use `get` or `head`");
            return None;
        }
        Some(HttpGuard::Probe(Box::new(Probe {
            request,
            found: found?,
            result: optional(result)?,
            after: after?,
        })))
    }

    /// `window`, `because` and `probe` each belong to one guard.
    fn refuse_stray_parts(
        &mut self,
        step: &Fields<'_>,
        parts: &Parts<'_>,
        named: Option<Guard>,
    ) -> bool {
        let owners = [
            ("window", parts.window, Guard::Key),
            ("because", parts.because, Guard::Repeat),
            ("probe", parts.probe, Guard::Probe),
        ];
        let mut fits = true;
        for (field, node, owner) in owners {
            if node.is_some() && named != Some(owner) {
                let message = format!("`{field}` belongs to `guard: {owner}`");
                let help = format!("add `guard: {owner}`, or leave `{field}` out");
                self.report(Code::GuardUnfit, step.name_span(field), &message, &help);
                fits = false;
            }
        }
        fits
    }
}
