//! A request with holes, and the same evaluated.

use semel_model::connection::{Connection, HttpTarget, KeyPlace, Target};
use semel_model::request::{ExternalRequest, HttpRequest, MultipartField, Pagination};
use semel_model::{EffectId, SeededBug, Span};
use serde::Serialize;
use serde_json::Value;

use super::super::released::body_of_answer;
use super::super::{FindConnection, ReleasedStep, RenderError, StepWork};
use crate::expr::{EvalError, Expr, Scope};
use crate::template::{Template, TextMap, TextTemplate, percent_encoded};

/// A request with holes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HttpStep {
    /// The connection that it goes over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// The method.
    pub method: Method,
    /// The absolute address, whose host has no hole; over a connection, what follows its base.
    pub url: TextTemplate,
    /// Headers by lower-case name.
    pub headers: TextMap<TextTemplate>,
    /// Parameters that are appended to the address.
    pub query: TextMap<TextTemplate>,
    /// What is sent along.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<RequestBody>,
    /// Where the effect's key goes; otherwise as the connection says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_as: Option<KeyPlace>,
    /// How the pages of a read are joined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<Pagination>,
    /// How long the whole exchange may take.
    pub timeout: Span,
}

/// The body of a request.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestBody {
    /// A value, sent as `application/json`.
    Json(Template),
    /// Text, sent as `text/plain`.
    Text(TextTemplate),
    /// Fields, sent as `application/x-www-form-urlencoded`.
    Form(TextMap<TextTemplate>),
    /// Parts, sent as `multipart/form-data`.
    Multipart(TextMap<PartTemplate>),
    /// The bytes of a resource.
    File(TextTemplate),
}

/// One part of a multipart body.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PartTemplate {
    /// Text.
    Text(TextTemplate),
    /// The bytes of a resource.
    File {
        /// The resource.
        file: TextTemplate,
        /// What the file is called.
        name: Option<TextTemplate>,
    },
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
}

impl HttpStep {
    /// The request with every hole evaluated. Over a connection the address is the connection's
    /// and what follows; `key` is put where the destination looks for it.
    ///
    /// # Errors
    ///
    /// If a hole cannot be evaluated, yields what its place cannot hold, or the connection is
    /// not there.
    pub fn render(
        &self,
        scope: &Scope<'_>,
        find: FindConnection<'_>,
        key: Option<EffectId>,
    ) -> Result<HttpRequest, RenderError> {
        let over = self.over(find)?;
        let (base, fixed) = match over {
            Some((_, target)) => (target.base_url.trim_end_matches('/'), &target.headers[..]),
            None => ("", &[][..]),
        };
        let mut request = HttpRequest {
            connection: self.connection.clone(),
            method: self.method.field().to_ascii_uppercase(),
            url: format!("{base}{}", self.render_url(scope)?),
            headers: self.render_headers(scope, fixed)?,
            key_header: None,
            body: None,
            parts: Vec::new(),
            file: None,
            pages: self.pages.clone(),
            timeout: self.timeout,
        };
        let mut json = None;
        match &self.body {
            Some(RequestBody::Json(template)) => json = Some(template.render(scope)?),
            Some(RequestBody::Text(text)) => request.body = Some(text.render(scope)?),
            Some(RequestBody::Form(fields)) => request.body = Some(render_form(fields, scope)?),
            Some(RequestBody::Multipart(parts)) => request.parts = render_parts(parts, scope)?,
            Some(RequestBody::File(file)) => request.file = Some(file.render(scope)?),
            None => {}
        }
        if let Some((connection, _)) = over {
            request.timeout = connection
                .timeout
                .map_or(self.timeout, |most| most.min(self.timeout));
        }
        if let Some(key) = key {
            let usual = over.map(|(connection, _)| &connection.idempotency_keys.place);
            let stated = self.key_as.as_ref().or(usual);
            if let Some(place) = stated.filter(|_| !SeededBug::KeyMisplaced.is_seeded()) {
                put_key(&mut request, &mut json, place, key)?;
            }
        }
        request.body = request.body.or(json.map(|json| json.to_string()));
        Ok(request)
    }

    /// The connection that it goes over, and where that leads.
    fn over<'c>(
        &self,
        find: FindConnection<'c>,
    ) -> Result<Option<(&'c Connection, &'c HttpTarget)>, RenderError> {
        let Some(name) = &self.connection else {
            return Ok(None);
        };
        let connection = find(name).ok_or_else(|| RenderError::NoConnection(name.clone()))?;
        if let Target::Http(target) = &connection.to {
            return Ok(Some((connection, target)));
        }
        Err(RenderError::Unfit {
            name: name.clone(),
            kind: connection.kind(),
        })
    }

    fn render_url(&self, scope: &Scope<'_>) -> Result<String, EvalError> {
        let mut url = self.url.render_url(scope)?;
        for (name, value) in &self.query {
            append_query(&mut url, name, &value.render(scope)?);
        }
        Ok(url)
    }

    fn render_headers(
        &self,
        scope: &Scope<'_>,
        fixed: &[(String, String)],
    ) -> Result<Vec<(String, String)>, EvalError> {
        let mut headers = Vec::with_capacity(self.headers.len() + fixed.len() + 1);
        for (name, value) in fixed {
            if !self.headers.contains_key(&name.to_ascii_lowercase()) {
                headers.push((name.clone(), value.clone()));
            }
        }
        for (name, value) in &self.headers {
            headers.push((name.clone(), value.render_header(scope)?));
        }
        if let Some(content_type) = self.body.as_ref().and_then(RequestBody::content_type)
            && !self.headers.contains_key("content-type")
        {
            headers.push(("content-type".to_owned(), content_type.to_owned()));
        }
        Ok(headers)
    }
}

impl ReleasedStep for HttpStep {
    fn exprs(&self) -> Vec<&Expr> {
        let texts = [&self.url]
            .into_iter()
            .chain(self.headers.values())
            .chain(self.query.values());
        let mut exprs: Vec<&Expr> = texts.flat_map(TextTemplate::exprs).collect();
        match &self.body {
            Some(RequestBody::Json(template)) => exprs.extend(template.exprs()),
            Some(RequestBody::Text(text) | RequestBody::File(text)) => exprs.extend(text.exprs()),
            Some(RequestBody::Form(fields)) => {
                exprs.extend(fields.values().flat_map(TextTemplate::exprs));
            }
            Some(RequestBody::Multipart(parts)) => {
                for part in parts.values() {
                    match part {
                        PartTemplate::Text(text) => exprs.extend(text.exprs()),
                        PartTemplate::File { file, name } => {
                            exprs.extend(file.exprs());
                            exprs.extend(name.iter().flat_map(TextTemplate::exprs));
                        }
                    }
                }
            }
            None => {}
        }
        exprs
    }

    fn connection(&self) -> Option<&str> {
        self.connection.as_deref()
    }

    fn work(
        &self,
        scope: &Scope<'_>,
        find: FindConnection<'_>,
        key: Option<EffectId>,
    ) -> Result<StepWork<'_>, RenderError> {
        Ok(StepWork::request(ExternalRequest::Http(
            self.render(scope, find, key)?,
        )))
    }

    fn result_of(&self, response: &Value) -> Value {
        body_of_answer(response)
    }
}

impl RequestBody {
    const fn content_type(&self) -> Option<&'static str> {
        match self {
            Self::Json(_) => Some("application/json"),
            Self::Text(_) => Some("text/plain; charset=utf-8"),
            Self::Form(_) => Some("application/x-www-form-urlencoded"),
            // Theirs depends on what is sent.
            Self::Multipart(_) | Self::File(_) => None,
        }
    }
}

/// Puts the effect's key where the destination looks for it.
fn put_key(
    request: &mut HttpRequest,
    json: &mut Option<Value>,
    place: &KeyPlace,
    key: EffectId,
) -> Result<(), RenderError> {
    match place {
        KeyPlace::Header(name) if name.eq_ignore_ascii_case("idempotency-key") => {}
        KeyPlace::Header(name) => request.key_header = Some(name.clone()),
        KeyPlace::Query(name) => append_query(&mut request.url, name, &key.to_string()),
        KeyPlace::Field(name) => {
            let Some(Value::Object(fields)) = json else {
                return Err(RenderError::NoField(name.clone()));
            };
            fields.insert(name.clone(), Value::String(key.to_string()));
        }
    }
    Ok(())
}

fn append_query(url: &mut String, name: &str, value: &str) {
    url.push(if url.contains('?') { '&' } else { '?' });
    url.push_str(&percent_encoded(name));
    url.push('=');
    url.push_str(&percent_encoded(value));
}

fn render_form(fields: &TextMap<TextTemplate>, scope: &Scope<'_>) -> Result<String, EvalError> {
    let mut form = String::new();
    for (name, value) in fields {
        if !form.is_empty() {
            form.push('&');
        }
        form.push_str(&percent_encoded(name));
        form.push('=');
        form.push_str(&percent_encoded(&value.render(scope)?));
    }
    Ok(form)
}

fn render_parts(
    parts: &TextMap<PartTemplate>,
    scope: &Scope<'_>,
) -> Result<Vec<MultipartField>, EvalError> {
    let render = |(name, part): (&String, &PartTemplate)| {
        let (text, file, file_name) = match part {
            PartTemplate::Text(text) => (Some(text.render(scope)?), None, None),
            PartTemplate::File { file, name } => {
                let name = name.as_ref().map(|name| name.render(scope)).transpose()?;
                (None, Some(file.render(scope)?), name)
            }
        };
        Ok(MultipartField {
            name: name.clone(),
            text,
            file,
            file_name,
        })
    };
    parts.iter().map(render).collect()
}
