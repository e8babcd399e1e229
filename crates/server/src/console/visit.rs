//! A visit: who asks for which page with which parameters; and what a form brings.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::extract::{FromRequest, FromRequestParts, MatchedPath, RawPathParams, Request};
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::Response;
use jiff::Timestamp;
use semel_api::Code;
use semel_engine::memory::Portion;
use semel_model::Right;
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::form_urlencoded;

use super::api::{LocalApi, PageMemory};
use super::look::Look;
use super::markup::{self, Markup, Whole};
use super::parameters;
use crate::app::App;
use crate::auth::Caller;
use crate::auth::signed_in::SignedIn;
use crate::body::Payload;
use crate::error::ApiError;
use crate::live::{Live, Topic};
use crate::query::has_zero;

/// What a page follows.
pub(super) struct Following {
    /// What it shows.
    pub(super) topic: String,
    /// What that was like when it was read.
    pub(super) mark: String,
}

/// A request for a page, by a browser that is signed in to its namespace.
pub(super) struct Visit {
    /// The browser.
    pub(super) signed_in: SignedIn,
    /// The database's time.
    pub(super) now: Timestamp,
    /// How its person wants pages to look.
    pub(super) look: Look,
    api: LocalApi,
    memory: PageMemory,
    live: Arc<Live>,
    path: HashMap<String, String>,
    query: HashMap<String, String>,
    query_text: String,
    address: String,
    is_form: bool,
    unsure: Mutex<Option<(String, String)>>,
}

impl FromRequestParts<App> for Visit {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let missing = || ApiError::plain(Code::RouteNotFound);
        let signed_in = SignedIn::from_request_parts(parts, app).await?;
        let api = parts.extensions.get::<LocalApi>().cloned();
        let api = api.ok_or_else(|| ApiError::internal("a console without its API"))?;
        let path = RawPathParams::from_request_parts(parts, app).await;
        let path = path.map_err(|_| missing())?;
        let path = owned(path.iter());
        let query_text = parts.uri.query().unwrap_or_default().to_owned();
        let query = form_urlencoded::parse(query_text.as_bytes()).into_owned();
        let mut query: HashMap<String, String> = query.collect();
        if path
            .values()
            .chain(query.values())
            .any(|value| has_zero(value))
        {
            return Err(missing());
        }
        // The same for a namespace of others and for one that is not there.
        let namespace = path.get("namespace").map(String::as_str);
        if namespace.is_some_and(|name| name != signed_in.caller.namespace.as_str()) {
            return Err(missing());
        }
        if let (&Method::GET, Some(route)) = (&parts.method, parts.extensions.get::<MatchedPath>())
        {
            parameters::read(route.as_str(), &mut query)?;
        }
        Ok(Self {
            signed_in,
            now: app.engine.now(),
            look: Look::of(&parts.headers),
            api,
            memory: PageMemory::of(app.options.body_budget.viewed.clone()),
            live: app.live.clone(),
            path,
            query,
            query_text,
            address: parts.uri.path().to_owned(),
            is_form: parts.method != Method::GET,
            unsure: Mutex::default(),
        })
    }
}

fn owned<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> HashMap<String, String> {
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

impl Visit {
    /// Whom the browser stands for.
    pub(super) fn caller(&self) -> &Caller {
        &self.signed_in.caller
    }

    /// Why the visitor may not act, where a right is missing.
    pub(super) fn lacks(&self, right: Right) -> Option<String> {
        let (caller, token) = (self.caller(), &self.caller().token);
        (!caller.may(right)).then(|| match caller.subject {
            Some(_) => format!("Your groups do not give you the right {right}."),
            None => format!("The token {token} does not have the right {right}."),
        })
    }

    /// The address of a page of this namespace.
    pub(super) fn page(&self, rest: &str) -> String {
        format!("/console/{}{rest}", self.caller().namespace)
    }

    /// A variable part of the path.
    pub(super) fn part(&self, name: &str) -> &str {
        self.path.get(name).map_or("", String::as_str)
    }

    /// A parameter; empty where there is none.
    pub(super) fn parameter(&self, name: &str) -> &str {
        self.query.get(name).map_or("", |value| value.trim())
    }

    /// All parameters, as they came.
    pub(super) fn query_text(&self) -> &str {
        &self.query_text
    }

    /// When something was, in words, with the exact time behind it.
    pub(super) fn time(&self, at: Timestamp) -> Markup {
        markup::time(self.now, at, &self.look.zone)
    }

    /// This page, to come back to; nothing for a form, whose address is no page.
    pub(super) fn here(&self) -> Option<String> {
        let query = match self.query_text.is_empty() {
            true => String::new(),
            false => format!("?{}", self.query_text),
        };
        (!self.is_form).then(|| format!("{}{query}", self.address))
    }

    /// Whether long texts are shown whole; if not, the same page with everything else as it is.
    pub(super) fn whole(&self) -> Whole {
        if self.parameter("whole") == "yes" {
            return Whole::Yes;
        }
        // The address of a form is that of its page and a verb.
        let page = match self.address.rsplit_once('/') {
            Some((page, _)) if self.is_form => page,
            _ => &self.address,
        };
        let query = match self.query_text.is_empty() || self.is_form {
            true => String::new(),
            false => format!("{}&", self.query_text),
        };
        Whole::At(format!("{page}?{query}whole=yes"))
    }

    /// What the page follows from now on; nothing for a form, whose address is no page. It is asked for
    /// before what the page shows is read.
    pub(super) async fn follow(&self, topic: Topic) -> Option<Following> {
        if self.is_form {
            return None;
        }
        let mark = self.live.mark(self.caller().namespace_id, topic).await;
        // A page that cannot follow is a page.
        mark.ok().map(|mark| Following {
            topic: topic.to_string(),
            mark,
        })
    }

    /// Reads from the API.
    pub(super) async fn get<T: DeserializeOwned + Send + 'static>(
        &self,
        address: &str,
    ) -> Result<T, ApiError> {
        self.api.get(self.caller(), address, &self.memory).await
    }

    /// Reads from the API what may be large, with the memory that it takes: to be kept until the page was sent.
    pub(super) async fn get_large<T: DeserializeOwned + Send + 'static>(
        &self,
        address: &str,
    ) -> Result<(T, Option<Portion>), ApiError> {
        self.api
            .get_large(self.caller(), address, &self.memory)
            .await
    }

    /// Reads from the API, and returns the response as it is.
    pub(super) async fn fetch(&self, address: &str) -> Result<Response, ApiError> {
        self.api.fetch(self.caller(), address).await
    }

    /// Acts through the API, once per key.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        address: &str,
        form: &Form,
        body: &impl Serialize,
    ) -> Result<T, ApiError> {
        let key = form.get("key");
        let asked = (Method::POST, address, Some(key));
        let done = self.api.act(self.caller(), asked, body).await;
        if let Err(error) = &done
            && may_have_happened(error)
            && let Ok(mut unsure) = self.unsure.lock()
        {
            *unsure = Some((self.address.clone(), key.to_owned()));
        }
        done
    }

    /// Asks the API for something that is named in what is asked, so that a repeat is the same.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        (method, address): (Method, &str),
        body: &impl Serialize,
    ) -> Result<T, ApiError> {
        let asked = (method, address, None);
        self.api.act(self.caller(), asked, body).await
    }

    /// The key of a form that was sent to this address, and of which it is not known whether it was
    /// carried out: sent again, it is the same act.
    pub(super) fn key_of_unsure(&self, action: &str) -> Option<String> {
        let unsure = self.unsure.lock().ok()?;
        let (address, key) = unsure.as_ref()?;
        (address == action).then(|| key.clone())
    }
}

/// Whether an act may have been carried out although it was refused.
fn may_have_happened(error: &ApiError) -> bool {
    let problem = error.problem();
    problem.status >= 500 || problem.code() == Some(Code::CommandUnderWay)
}

/// The fields of a form that a page of this sign-in sent.
pub(super) struct Form(HashMap<String, String>);

impl Form {
    /// A field; empty where it was left empty.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", |value| value.trim())
    }

    /// A field that may be left empty.
    pub(super) fn given(&self, name: &str) -> Option<String> {
        Some(self.get(name).to_owned()).filter(|value| !value.is_empty())
    }
}

impl FromRequest<App> for Form {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let signed_in = request.extensions().get::<SignedIn>().cloned();
        let payload = Payload::from_request(request, app).await?;
        let fields = Self(form_urlencoded::parse(&payload.0).into_owned().collect());
        let owns = |signed_in: SignedIn| signed_in.owns_form(fields.get("form"));
        match signed_in.is_some_and(owns) {
            true => Ok(fields),
            false => Err(ApiError::plain(Code::FormRefused)),
        }
    }
}
