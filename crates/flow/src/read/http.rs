//! `http` steps: the request, the guard, and what is kept of the answer.

mod guard;
mod url;

use semel_model::Span;

use super::fields::Fields;
use super::names::{Names, Place};
use super::{Reader, optional};
use crate::diagnostic::Code;
use crate::release::{Body, HttpStep, Method, Request};
use crate::yaml::Node;

/// Headers that belong to the connection or to the engine.
const RESERVED_HEADERS: [&str; 8] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "te",
    "trailer",
    "idempotency-key",
];

/// Fields of a step that only an effect in the outside world has.
const EFFECT_FIELDS: [&str; 5] = ["window", "because", "probe", "result", "external_id"];

impl Reader<'_> {
    pub(super) fn http(
        &mut self,
        node: &Node,
        step: &mut Fields<'_>,
        names: Names<'_>,
    ) -> Option<HttpStep> {
        let request = self.request(node, names);
        let method = request.as_ref().map(|request| request.method);
        let guard = self.http_guard(step, method, names);
        let result = step
            .find("result")
            .map(|node| self.expr(node, "result", names.at(Place::Response)));
        let external_id = step
            .find("external_id")
            .map(|node| self.expr(node, "external_id", names.at(Place::ExternalId)));
        Some(HttpStep {
            request: request?,
            guard: guard?,
            result: optional(result)?,
            external_id: optional(external_id)?,
        })
    }

    /// Reports the fields that a step without an effect in the outside world cannot have.
    pub(super) fn refuse_effect_fields(&mut self, step: &mut Fields<'_>, kind: &str) {
        let guarded = kind != "kv" && step.find("guard").is_some();
        let extra: Vec<&str> = EFFECT_FIELDS
            .into_iter()
            .filter(|field| step.find(field).is_some())
            .collect();
        for field in extra.into_iter().chain(guarded.then_some("guard")) {
            let code = match field {
                "guard" | "probe" | "window" | "because" => Code::GuardUnfit,
                _ => Code::FieldConflict,
            };
            let message = format!("a `{kind}` step cannot have `{field}`");
            let help = match field {
                "result" => "leave it out: the step's result is what it yields",
                _ => "leave it out: there is no call whose answer could get lost",
            };
            self.report(code, step.name_span(field), &message, help);
        }
    }

    /// Makes the effect's fields known, so that a broken step is not told that they do not exist.
    pub(super) fn effect_fields(&self, step: &mut Fields<'_>) {
        for field in EFFECT_FIELDS.into_iter().chain(["guard"]) {
            step.find(field);
        }
    }

    pub(super) fn request(&mut self, node: &Node, names: Names<'_>) -> Option<Request> {
        let mut fields = self.fields(node, "`http`")?;
        let found: Vec<(Method, &Node)> = Method::ALL
            .into_iter()
            .filter_map(|method| Some((method, fields.find(method.field())?)))
            .collect();
        let headers = fields
            .find("headers")
            .map(|node| self.text_templates(node, "headers", names, Self::header_name));
        let query = fields.find("query").map(|node| {
            self.text_templates(node, "query", names, |_, name, _| Some(name.to_owned()))
        });
        let body = self.body(&mut fields, names);
        let timeout = fields
            .find("timeout")
            .map_or(Some(Span::from_secs(30)), |node| {
                self.span(node, "timeout", Span::from_millis(1)..=Span::from_secs(600))
            });
        self.finish(&fields);
        let (method, url) = self.one_method(&fields, &found)?;
        let url = self.url(url, method.field(), names);
        if method.is_read() && !matches!(body, Some(None)) {
            let message = format!("a `{}` has no body", method.field());
            let help = "send the values in `query`, or use `post`";
            self.report(Code::FieldConflict, fields.span.clone(), &message, help);
            return None;
        }
        Some(Request {
            method,
            url: url?,
            headers: headers.map_or(Some(Default::default()), |read| read)?,
            query: query.map_or(Some(Default::default()), |read| read)?,
            body: body?,
            timeout: timeout?,
        })
    }

    fn one_method<'n>(
        &mut self,
        fields: &Fields<'_>,
        found: &[(Method, &'n Node)],
    ) -> Option<(Method, &'n Node)> {
        match found {
            [one] => Some(*one),
            [] => {
                let message = "`http` does not say what to call";
                let help = "add `post: \"https://…\"`, or get, head, put, patch, delete";
                self.report(Code::MissingField, fields.span.clone(), message, help);
                None
            }
            several => {
                let spans = several
                    .iter()
                    .map(|(method, _)| fields.name_span(method.field()));
                let span = spans.max_by_key(|span| span.start).unwrap_or_default();
                let help = "make two steps of it";
                self.report(
                    Code::FieldConflict,
                    span,
                    "an `http` step makes one call",
                    help,
                );
                None
            }
        }
    }

    fn body(&mut self, fields: &mut Fields<'_>, names: Names<'_>) -> Option<Option<Body>> {
        match (fields.find("json"), fields.find("text")) {
            (None, None) => Some(None),
            (Some(node), None) => self.template(node, names).map(Body::Json).map(Some),
            (None, Some(node)) => self
                .text_template(node, "text", names)
                .map(Body::Text)
                .map(Some),
            (Some(_), Some(_)) => {
                let span = fields.name_span("text");
                let help = "keep `json` or `text`";
                self.report(Code::FieldConflict, span, "a request has one body", help);
                None
            }
        }
    }

    /// A header's name in lower case, unless it is no name or not the author's.
    fn header_name(&mut self, name: &str, at: &Node) -> Option<String> {
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let lower = name.to_ascii_lowercase();
        if name.is_empty() || !name.bytes().all(token) {
            let message = format!("`{name}` is no name of a header");
            self.report(
                Code::HeaderInvalid,
                at.span.clone(),
                &message,
                "write `x-name: value`",
            );
            return None;
        }
        if RESERVED_HEADERS.contains(&lower.as_str()) {
            let message = format!("the header `{lower}` is not the flow's to set");
            let help = match lower.as_str() {
                "idempotency-key" => "leave it out: every call carries its effect's key",
                _ => "leave it out: it follows from the address and the body",
            };
            self.report(Code::HeaderInvalid, at.span.clone(), &message, help);
            return None;
        }
        Some(lower)
    }
}
