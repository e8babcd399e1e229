//! `http` steps, checked.

use semel_model::request::HttpRequest;
use semel_model::{Guard, Span};
use serde::Serialize;
use serde_json::Value;

use super::TextMap;
use crate::expr::{EvalError, Expr, Scope};
use crate::template::{Template, TextTemplate, percent_encoded};

/// One call, how it is made safe, and what is kept of its answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HttpStep {
    /// What is sent.
    pub request: Request,
    /// How meeting it twice is made safe.
    pub guard: HttpGuard,
    /// The step's result, over `response`; otherwise the JSON body, else the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Expr>,
    /// What the destination calls the effect, over `result`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_id: Option<Expr>,
}

/// A request with holes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The absolute address; its host has no hole.
    pub url: TextTemplate,
    /// Headers by lower-case name.
    pub headers: TextMap<TextTemplate>,
    /// Parameters that are appended to the address.
    pub query: TextMap<TextTemplate>,
    /// What is sent along.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
    /// How long the whole exchange may take.
    pub timeout: Span,
}

/// The body of a request.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// A value, sent as `application/json`.
    Json(Template),
    /// Text, sent as `text/plain`.
    Text(TextTemplate),
}

/// The methods that a step can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Reads.
    Get,
    /// Reads the headers.
    Head,
    /// Asks for something new.
    Post,
    /// Replaces what is at the address.
    Put,
    /// Changes what is at the address.
    Patch,
    /// Removes what is at the address.
    Delete,
}

impl Method {
    /// Every method, in the order in which the documentation lists them.
    pub const ALL: [Self; 6] = [
        Self::Get,
        Self::Head,
        Self::Post,
        Self::Put,
        Self::Patch,
        Self::Delete,
    ];

    /// The method as a field of a flow.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Head => "head",
            Self::Post => "post",
            Self::Put => "put",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }

    /// Whether a call with it changes nothing and may be made again.
    #[must_use]
    pub const fn is_read(self) -> bool {
        matches!(self, Self::Get | Self::Head)
    }

    /// The guard of a step that names none: the safe one.
    #[must_use]
    pub const fn default_guard(self) -> HttpGuard {
        match self {
            Self::Get | Self::Head => HttpGuard::Read,
            Self::Put | Self::Delete => HttpGuard::Natural,
            Self::Post | Self::Patch => HttpGuard::Review,
        }
    }
}

/// How a call is made safe to meet twice.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HttpGuard {
    /// No effect: it may be repeated at will.
    Read,
    /// The destination honours our key.
    Key {
        /// For how long it remembers the key.
        window: Span,
    },
    /// Repeating is harmless by nature.
    Natural,
    /// A read tells whether it happened.
    Probe(Box<Probe>),
    /// A person settles a doubt.
    Review,
    /// Deliberately additive.
    Repeat {
        /// Why the author signed for repeats.
        because: String,
    },
}

impl HttpGuard {
    /// The guard's name in the ledger; nothing for a read, which has no entry there.
    #[must_use]
    pub const fn guard(&self) -> Option<Guard> {
        match self {
            Self::Read => None,
            Self::Key { .. } => Some(Guard::Key),
            Self::Natural => Some(Guard::Natural),
            Self::Probe(_) => Some(Guard::Probe),
            Self::Review => Some(Guard::Review),
            Self::Repeat { .. } => Some(Guard::Repeat),
        }
    }
}

/// The read that tells whether an effect happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Probe {
    /// What is asked; always a read.
    pub request: Request,
    /// Whether it happened, over `probe`.
    pub found: Expr,
    /// The step's result where it happened, over `probe`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Expr>,
    /// Quiet time before asking, so that a request under way has landed.
    pub after: Span,
}

impl Request {
    /// The request with every hole worked out.
    ///
    /// # Errors
    ///
    /// Where a hole cannot be worked out, or yields what its place cannot hold.
    pub fn render(&self, scope: &Scope<'_>) -> Result<HttpRequest, EvalError> {
        let body = self
            .body
            .as_ref()
            .map(|body| body.render(scope))
            .transpose()?;
        Ok(HttpRequest {
            connection: None,
            key_header: None,
            parts: Vec::new(),
            file: None,
            pages: None,
            method: self.method.field().to_ascii_uppercase(),
            url: self.render_url(scope)?,
            headers: self.render_headers(scope)?,
            body,
            timeout: self.timeout,
        })
    }

    fn render_url(&self, scope: &Scope<'_>) -> Result<String, EvalError> {
        let mut url = self.url.render_url(scope)?;
        for (name, value) in &self.query {
            let value = percent_encoded(&value.render(scope)?);
            url.push(if url.contains('?') { '&' } else { '?' });
            url.push_str(&format!("{}={value}", percent_encoded(name)));
        }
        Ok(url)
    }

    fn render_headers(&self, scope: &Scope<'_>) -> Result<Vec<(String, String)>, EvalError> {
        let mut headers = Vec::with_capacity(self.headers.len() + 1);
        for (name, value) in &self.headers {
            headers.push((name.clone(), value.render_header(scope)?));
        }
        if let Some(body) = &self.body
            && !self.headers.contains_key("content-type")
        {
            headers.push(("content-type".to_owned(), body.content_type().to_owned()));
        }
        Ok(headers)
    }

    /// Every expression of the request.
    #[must_use]
    pub fn exprs(&self) -> Vec<&Expr> {
        let texts = [&self.url]
            .into_iter()
            .chain(self.headers.values())
            .chain(self.query.values());
        let mut exprs: Vec<&Expr> = texts.flat_map(TextTemplate::exprs).collect();
        match &self.body {
            Some(Body::Json(template)) => exprs.extend(template.exprs()),
            Some(Body::Text(text)) => exprs.extend(text.exprs()),
            None => {}
        }
        exprs
    }
}

impl Body {
    const fn content_type(&self) -> &'static str {
        match self {
            Self::Json(_) => "application/json",
            Self::Text(_) => "text/plain; charset=utf-8",
        }
    }

    fn render(&self, scope: &Scope<'_>) -> Result<String, EvalError> {
        match self {
            Self::Json(template) => Ok(template.render(scope)?.to_string()),
            Self::Text(text) => text.render(scope),
        }
    }
}

impl HttpStep {
    /// What the step yields for an answer, over a scope that has `response` in it.
    ///
    /// # Errors
    ///
    /// Where the author's `result` cannot be worked out.
    pub fn result_of(&self, scope: &Scope<'_>) -> Result<Value, EvalError> {
        if let Some(expr) = &self.result {
            return expr.eval(scope);
        }
        let response = scope.find("response");
        let part = |name| response.and_then(|response| response.get(name)).cloned();
        Ok(part("json")
            .filter(|json| !json.is_null())
            .or_else(|| part("text"))
            .unwrap_or_default())
    }
}
