//! Looking at every response, for tests that compare them with the API's document. A server without an
//! inspector has no such layer.

use std::fmt;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::Method;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::Response;

/// A response, as its client gets it.
#[derive(Clone, Copy, Debug)]
pub struct SeenResponse<'a> {
    /// The method of the request.
    pub method: &'a Method,
    /// The path of the request.
    pub path: &'a str,
    /// The status.
    pub status: u16,
    /// The media type; empty where there is none.
    pub media_type: &'a str,
    /// The body, where it is JSON.
    pub json: Option<&'a [u8]>,
}

/// Looks at every response.
#[derive(Clone)]
pub struct Inspector(Arc<dyn Fn(SeenResponse<'_>) + Send + Sync>);

impl Inspector {
    /// An inspector that calls a function.
    pub fn new(look: impl Fn(SeenResponse<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(look))
    }

    /// Answers a request, and looks at the response.
    pub(crate) async fn look(self, request: Request, next: Next) -> Response {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let response = next.run(request).await;
        let media_type = response.headers().get(CONTENT_TYPE);
        let media_type = media_type.and_then(|value| value.to_str().ok());
        let media_type = media_type.unwrap_or_default().to_owned();
        let seen = |status, json| {
            (self.0)(SeenResponse {
                method: &method,
                path: &path,
                status,
                media_type: &media_type,
                json,
            });
        };
        let is_json = media_type == "application/json" || media_type.ends_with("+json");
        if !is_json {
            seen(response.status().as_u16(), None);
            return response;
        }
        let (head, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
        seen(head.status.as_u16(), Some(&bytes));
        Response::from_parts(head, Body::from(bytes))
    }
}

impl fmt::Debug for Inspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inspector")
    }
}
