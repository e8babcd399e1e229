//! The API as the console uses it: the same routes, asked from within the process.
//!
//! A page reads and acts as a program with the same token would. What the token may not do or see is
//! decided where it is for everybody, in `access` and `payloads`.

use axum::Router;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, Request};
use axum::response::Response;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use semel_api::{Code, Problem};
use semel_engine::Budget;
use semel_engine::memory::Portion;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use tower::ServiceExt as _;

use crate::auth::{Caller, OnBehalfOf};
use crate::commands::KEY_HEADER;
use crate::error::ApiError;
use crate::heavy;
use crate::journal_memory::{PATIENCE, room_for_page};

/// The longest response that a page is made from.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Memory for the answers that one page is made from. Its first large answer takes memory, and the few others of the
/// page are read beside it: a page that waited for more would wait for itself.
pub(super) struct PageMemory {
    budget: Budget,
    held: Mutex<HeldMemory>,
}

/// The memory that a page has taken.
enum HeldMemory {
    Nothing,
    /// For as long as the page is made.
    Here {
        _memory: Portion,
    },
    /// Its maker has it.
    Elsewhere,
}

impl PageMemory {
    /// Nothing of this budget yet.
    pub(super) fn of(budget: Budget) -> Self {
        Self {
            budget,
            held: Mutex::new(HeldMemory::Nothing),
        }
    }
}

/// The routes of the API.
#[derive(Clone)]
pub(crate) struct LocalApi(Router);

impl LocalApi {
    /// The API of these routes.
    pub(crate) fn new(routes: Router) -> Self {
        Self(routes)
    }

    /// Reads. The page takes memory for a large answer, which is free again once the page is made.
    pub(super) async fn get<T: DeserializeOwned + Send + 'static>(
        &self,
        caller: &Caller,
        address: &str,
        memory: &PageMemory,
    ) -> Result<T, ApiError> {
        let response = self.fetch(caller, address).await?;
        let mut held = memory.held.lock().await;
        if !matches!(*held, HeldMemory::Nothing) {
            drop(held);
            return parse(response).await;
        }
        let budget = &memory.budget;
        let (read, portion) = parse_large(caller.namespace_id, response, budget).await?;
        if let Some(portion) = portion {
            *held = HeldMemory::Here { _memory: portion };
        }
        Ok(read)
    }

    /// Reads what may be large, with the memory that it takes: to be kept for as long as anything of it is.
    pub(super) async fn get_large<T: DeserializeOwned + Send + 'static>(
        &self,
        caller: &Caller,
        address: &str,
        memory: &PageMemory,
    ) -> Result<(T, Option<Portion>), ApiError> {
        let response = self.fetch(caller, address).await?;
        let mut held = memory.held.lock().await;
        if !matches!(*held, HeldMemory::Nothing) {
            drop(held);
            return parse(response).await.map(|read| (read, None));
        }
        let budget = &memory.budget;
        let (read, portion) = parse_large(caller.namespace_id, response, budget).await?;
        if portion.is_some() {
            *held = HeldMemory::Elsewhere;
        }
        Ok((read, portion))
    }

    /// Reads, and returns the response as it is.
    pub(super) async fn fetch(&self, caller: &Caller, address: &str) -> Result<Response, ApiError> {
        let request = Request::builder().method(Method::GET).uri(address);
        self.send(caller, request.body(Body::empty())).await
    }

    /// Acts: once per key, where there is one.
    pub(super) async fn act<T: DeserializeOwned>(
        &self,
        caller: &Caller,
        (method, address, key): (Method, &str, Option<&str>),
        body: &impl Serialize,
    ) -> Result<T, ApiError> {
        let body = serde_json::to_vec(body);
        let body = body.map_err(|_| ApiError::internal("a command that is not JSON"))?;
        let mut request = Request::builder()
            .method(method)
            .uri(address)
            .header(CONTENT_TYPE, "application/json");
        if let Some(key) = key {
            request = request.header(KEY_HEADER, key);
        }
        parse(self.send(caller, request.body(Body::from(body))).await?).await
    }

    async fn send(
        &self,
        caller: &Caller,
        request: axum::http::Result<Request<Body>>,
    ) -> Result<Response, ApiError> {
        let mut request = request.map_err(|_| ApiError::plain(Code::RouteNotFound))?;
        request.extensions_mut().insert(OnBehalfOf(caller.clone()));
        match self.0.clone().oneshot(request).await {
            Ok(response) => Ok(response),
            Err(never) => match never {},
        }
    }
}

async fn parse<T: DeserializeOwned>(response: Response) -> Result<T, ApiError> {
    let status = response.status();
    let body = read(response).await?;
    if status.is_success() {
        let read = serde_json::from_slice(&body);
        return read.map_err(|_| ApiError::internal("an answer of the API that cannot be read"));
    }
    match serde_json::from_slice::<Problem>(&body) {
        Ok(problem) => Err(ApiError::of(problem)),
        Err(_) => Err(ApiError::internal(
            "a refusal of the API that cannot be read",
        )),
    }
}

/// The body keeps its own memory until its values are there.
async fn parse_large<T: DeserializeOwned + Send + 'static>(
    namespace_id: i32,
    response: Response,
    budget: &Budget,
) -> Result<(T, Option<Portion>), ApiError> {
    if !response.status().is_success() {
        return parse(response).await.map(|read| (read, None));
    }
    let body = read(response).await?;
    let memory = room_for_page(budget, &body, PATIENCE).await?;
    let read = match &memory {
        None => serde_json::from_slice(&body),
        Some(_) => heavy::compute(namespace_id, move || serde_json::from_slice(&body)).await?,
    };
    let read = read.map_err(|_| ApiError::internal("an answer of the API that cannot be read"))?;
    Ok((read, memory))
}

/// The whole body of a response.
pub(super) async fn read(response: Response) -> Result<Bytes, ApiError> {
    let body = Limited::new(response.into_body(), BODY_BYTES_MAX)
        .collect()
        .await;
    let body =
        body.map_err(|_| ApiError::internal("an answer of the API that is cut or too long"))?;
    Ok(body.to_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[tokio::test]
    async fn the_memory_of_what_a_page_is_made_of_is_taken_until_the_page_was_sent() {
        let budget = Budget::of_bytes(1 << 20);
        let large = format!("[\"{}\"]", "x".repeat(1 << 20));
        let answer = |text: &str| Response::new(Body::from(text.to_owned()));

        let small: (Value, _) = parse_large(1, answer("{}"), &budget).await.unwrap();
        let (_values, memory): (Value, _) = parse_large(1, answer(&large), &budget).await.unwrap();
        let page = crate::answer::bytes_with_memory("<p>".to_owned(), memory);
        let meanwhile = budget.try_take(1).is_some();
        drop(page);

        assert!(small.1.is_none());
        assert!(!meanwhile, "all of it is taken");
        assert!(budget.try_take(1 << 20).is_some());
    }
}
