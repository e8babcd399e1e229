//! What an `http` step sends.

use serde::{Deserialize, Serialize};

use super::{ExternalKind, RequestSummary, json_text};
use crate::span::Span;

/// One HTTP request, rendered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpRequest {
    /// The connection that signs it in and limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// The method, in capitals.
    pub method: String,
    /// The absolute address.
    pub url: String,
    /// Names and values, in the order in which they are sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// The header that carries the effect's key. Absent: the key stands in the address or the body
    /// already, or goes out as `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_header: Option<String>,
    /// The body, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The body as parts, where it is sent as `multipart/form-data`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<MultipartField>,
    /// The resource whose bytes are the body, as `res://…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// How the pages of a read are put together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<Pagination>,
    /// How long the whole exchange may take.
    pub timeout: Span,
}

/// One part of a `multipart/form-data` body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MultipartField {
    /// The field.
    pub name: String,
    /// Its text, where it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The resource whose bytes it is, as `res://…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What the file is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_name: Option<String>,
}

/// How the pages of a read are put together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pagination {
    /// Where the items of a page stand, as a dotted path into its JSON; the whole where empty.
    pub items: String,
    /// How the next page is found.
    pub next: NextPage,
    /// The most pages.
    pub most: u32,
}

/// How the next page is found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NextPage {
    /// By the `Link` header with `rel="next"`.
    Link,
    /// By a cursor that stands at a dotted path and goes into a query parameter.
    Cursor {
        /// The path.
        path: String,
        /// The parameter.
        query: String,
    },
}

impl ExternalKind for HttpRequest {
    fn connection(&self) -> Option<&str> {
        self.connection.as_deref()
    }

    fn address(&self) -> Option<&str> {
        match &self.connection {
            Some(_) => None,
            None => Some(&self.url),
        }
    }

    fn timeout(&self) -> Span {
        self.timeout
    }

    fn summary(&self) -> RequestSummary {
        let body = match (&self.body, &self.file) {
            (Some(body), _) => Some(body.clone()),
            (None, Some(file)) => Some(file.clone()),
            (None, None) => (!self.parts.is_empty()).then(|| json_text(&self.parts)),
        };
        RequestSummary {
            what: format!("{} {}", self.method, self.url),
            body,
        }
    }
}
