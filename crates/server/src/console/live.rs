//! Live update: what pages follow, as a stream for one tab of a browser, or asked for now and then.
//!
//! A stream carries marks and no markup. It says all of them every few seconds, so that a tab that hears
//! nothing knows to ask by itself; and it ends with the sign-in, and with the server. With the marks it says
//! how long a page rests before it is asked for again.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::{ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::future::select_all;
use futures_util::stream;
use semel_api::Code;
use semel_model::{Right, Span, TokenId};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use url::form_urlencoded;

use super::visit::Visit;
use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::signed_in::{self, SignedIn};
use crate::error::ApiError;
use crate::live::{Mark, Topic};
use crate::places::Place;

/// How many topics one browser follows.
const TOPICS_MAX: usize = 16;

/// How often all marks are said, whatever changes.
const SAY_EVERY: Duration = Duration::from_secs(5);

/// How often it is looked whether the browser is still signed in.
const CHECK_EVERY: Duration = Duration::from_secs(4);

/// How soon to try again where too many follow.
const RETRY_SECS: u64 = 30;

/// For proxies that would gather a response before they pass it on.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// How long a page rests, for who asks now and then: in milliseconds.
const REST: HeaderName = HeaderName::from_static("semel-rest-ms");

/// The marks of topics.
type Marks = BTreeMap<String, String>;

/// What a stream says.
#[derive(Serialize)]
struct Said {
    marks: Marks,
    /// How long a page rests at least before it is asked for again.
    rest_ms: u64,
}

fn rest_ms(app: &App) -> u64 {
    u64::try_from(app.live.rest().as_millis()).unwrap_or(u64::MAX)
}

/// `GET /console/{namespace}/live`: a stream, or with `once=yes` what it would say now.
pub(super) async fn follow(State(app): State<App>, headers: HeaderMap, visit: Visit) -> Answered {
    if visit.lacks(Right::Read).is_some() {
        return Err(visit.caller().lacks(Right::Read));
    }
    let topics = read_topics(&visit)?;
    match visit.parameter("once") {
        "yes" => say_once(&app, &headers, &visit, &topics).await,
        _ => open(app, headers, &visit, &topics),
    }
}

fn read_topics(visit: &Visit) -> Result<Vec<Topic>, ApiError> {
    let pairs = form_urlencoded::parse(visit.query_text().as_bytes());
    let named = pairs.filter(|(name, _)| name == "topic");
    let topics: Result<Vec<Topic>, _> = named.map(|(_, topic)| topic.parse()).collect();
    match topics {
        Ok(topics) if (1..=TOPICS_MAX).contains(&topics.len()) => Ok(topics),
        Ok(_) | Err(_) => {
            let detail =
                "`topic` is `overview`, `runs`, `doubts` or `run:` and a run, up to 16 times";
            Err(ApiError::new(Code::QueryInvalid, detail))
        }
    }
}

/// What a browser without streams asks for; the same mark is not sent twice.
async fn say_once(app: &App, headers: &HeaderMap, visit: &Visit, topics: &[Topic]) -> Answered {
    let mut marks = Marks::new();
    for topic in topics {
        let mark = app.live.mark(visit.caller().namespace_id, *topic).await?;
        marks.insert(topic.to_string(), mark);
    }
    let mut digest = Sha256::new();
    for (topic, mark) in &marks {
        digest.update(format!("{topic} {mark}\n"));
    }
    let tag = format!("\"{}\"", hex::encode(&digest.finalize()[..12]));
    let rest_ms = rest_ms(app);
    let mut response = match headers.get(IF_NONE_MATCH) {
        Some(known) if known == tag.as_str() => StatusCode::NOT_MODIFIED.into_response(),
        Some(_) | None => answer::ok(&Said { marks, rest_ms })?,
    };
    // What has not changed has no body, and rests all the same.
    response.headers_mut().insert(REST, rest_ms.into());
    if let Ok(tag) = HeaderValue::try_from(tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    Ok(response)
}

/// A browser that follows.
struct Follower {
    app: App,
    headers: HeaderMap,
    signed_in: SignedIn,
    topics: Vec<(String, watch::Receiver<Mark>)>,
    say_at: Instant,
    check_at: Instant,
    _place: Place<TokenId>,
}

fn open(app: App, headers: HeaderMap, visit: &Visit, topics: &[Topic]) -> Answered {
    let full = || {
        let detail = "too many browsers follow pages of this server";
        let wait = Span::from_secs(RETRY_SECS);
        ApiError::new(Code::TooManyRequests, detail).retry_in(wait)
    };
    let place = app.live.enter(visit.caller().id).ok_or_else(full)?;
    let mut followed = Vec::with_capacity(topics.len());
    for topic in topics {
        let receiver = app.live.follow(visit.caller().namespace_id, *topic);
        followed.push((topic.to_string(), receiver.ok_or_else(full)?));
    }
    let follower = Follower {
        app,
        headers,
        signed_in: visit.signed_in.clone(),
        topics: followed,
        say_at: Instant::now(),
        check_at: Instant::now() + CHECK_EVERY,
        _place: place,
    };
    let events = stream::unfold(follower, |mut follower| async move {
        let marks = follower.next().await?;
        let rest_ms = rest_ms(&follower.app);
        let event = Event::default().json_data(Said { marks, rest_ms }).ok()?;
        Some((Ok::<_, Infallible>(event), follower))
    });
    let mut response: Response = Sse::new(events).into_response();
    let no = HeaderValue::from_static("no");
    response.headers_mut().insert(BUFFERING, no);
    Ok(response)
}

impl Follower {
    /// The marks, once one has changed or it is time to say them again; nothing when the stream is over.
    async fn next(&mut self) -> Option<Marks> {
        loop {
            let shutdown = self.app.shutdown.clone();
            tokio::select! {
                () = shutdown.cancelled() => return None,
                () = sleep_until(self.say_at) => {}
                () = changed(&mut self.topics) => {}
            }
            let now = Instant::now();
            if now >= self.check_at {
                if !self.is_signed_in().await {
                    return None;
                }
                self.check_at = now + CHECK_EVERY;
            }
            self.say_at = now + SAY_EVERY;
            let marks = self.marks();
            // Nothing was looked at yet: the first look tells.
            if !marks.is_empty() {
                return Some(marks);
            }
        }
    }

    fn marks(&mut self) -> Marks {
        let known = self.topics.iter_mut().filter_map(|(topic, receiver)| {
            let mark = receiver.borrow_and_update().clone()?;
            Some((topic.clone(), mark.to_string()))
        });
        known.collect()
    }

    /// Who signed out, was revoked or lost the right follows no longer.
    async fn is_signed_in(&self) -> bool {
        let at = (
            self.signed_in.site.clone(),
            self.signed_in.caller.namespace.as_str(),
        );
        let cells = (self.app.cell(), self.app.engine.cell());
        let known = &self.app.sign_ins;
        let from = self.app.check_peer(self.signed_in.peer);
        match signed_in::find_for_script(&self.headers, at, from, known, cells).await {
            Ok(Some(found)) => {
                let caller = &found.caller;
                caller.may(Right::Read) && caller.namespace_id == self.signed_in.caller.namespace_id
            }
            Ok(None) => false,
            // The database does not answer: nothing is said that is not said to who is signed in.
            Err(_) => false,
        }
    }
}

/// Waits until a topic has another mark.
async fn changed(topics: &mut [(String, watch::Receiver<Mark>)]) {
    let each = topics.iter_mut().map(|(_, receiver)| {
        Box::pin(async move {
            if receiver.changed().await.is_err() {
                // It is looked at no longer, because the server stops.
                std::future::pending::<()>().await;
            }
        })
    });
    select_all(each).await;
}
