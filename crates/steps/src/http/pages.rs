//! Reads in pages: the items of all of them, as one answer.
//!
//! Between two pages a stranger is waited for, and with ten megabytes of values in memory that would be a wait at the
//! cost of others. So a page is read for what the next one needs and becomes text again; the values of all pages are
//! there once the last has come and there is room for them.

use bytes::Bytes;
use hyper::header::{HeaderMap, LINK};
use semel_model::request::{NextPage, Pagination};
use semel_model::{Fault, FaultKind, Outcome, Receipt, Span, json};
use serde_json::Value;
use url::Url;

use super::answer::{Answer, Body};
use super::{ANSWER_BYTES_MAX, HttpExecutor, Sending};

/// When a read is made again that found others with many pages.
const LONG_READ_REST: Span = Span::from_const_secs(2);

/// The most bytes of all pages together.
const PAGES_BYTES_MAX: usize = 10 << 20;

/// Reads page after page.
pub(super) async fn gather(
    caller: &HttpExecutor,
    sending: &Sending<'_>,
    pages: &Pagination,
) -> Outcome {
    let mut url = sending.url.clone();
    let mut texts: Vec<Bytes> = Vec::new();
    let mut bytes = 0;
    let mut long_read = None;
    let (answers, namespace_id) = (&caller.reach.answers, sending.route.namespace_id);
    loop {
        let most = match long_read {
            Some(_) => PAGES_BYTES_MAX,
            None => ANSWER_BYTES_MAX,
        };
        let left = most.saturating_sub(bytes);
        let answer = match caller.follow(sending, &url, left, None).await {
            Ok(answer) if answer.is_done() => answer,
            Ok(answer) => return answer.outcome(),
            Err(outcome) => return outcome,
        };
        let text = match &answer.body {
            Body::Whole(text) => text.clone(),
            Body::Cut(_) | Body::Kept(_) if long_read.is_some() => {
                return Outcome::Failed(too_large());
            }
            // The same page is asked for once more, and may then be long.
            Body::Cut(_) | Body::Kept(_) => match answers.try_read_long(namespace_id) {
                Some(begun) => {
                    long_read = Some(begun);
                    continue;
                }
                None => return Outcome::Failed(too_many_long_reads()),
            },
        };
        bytes += text.len();
        texts.push(text.clone());
        let page_count = u32::try_from(texts.len()).unwrap_or(u32::MAX);
        let reserved = answers.take_for(namespace_id, &text).await;
        let next = read_page(&text, pages, page_count)
            .and_then(|page| find_next(sending, &url, &answer.headers, &page.json, pages));
        drop(reserved);
        let more = match next {
            Ok(Some(next)) if page_count < pages.most => {
                url = next;
                continue;
            }
            Ok(more) => more,
            Err(fault) => return Outcome::Failed(fault),
        };
        let weight = texts.iter().map(|text| json::parsed_bytes(text)).sum();
        let reserved = answers.take(namespace_id, weight).await;
        return match read_items(&texts, pages) {
            Ok(items) => {
                let read = receipt(&answer, items, page_count, more);
                Outcome::Done(read.with_memory(reserved))
            }
            Err(fault) => Outcome::Failed(fault),
        };
    }
}

/// The items of all pages, each of which was read before.
fn read_items(texts: &[Bytes], pages: &Pagination) -> Result<Vec<Value>, Fault> {
    let mut items = Vec::new();
    for (place, text) in (1..).zip(texts) {
        items.extend(read_page(text, pages, place)?.items);
    }
    Ok(items)
}

struct Page {
    items: Vec<Value>,
    /// The page without its items.
    json: Value,
}

fn read_page(bytes: &[u8], pages: &Pagination, page_count: u32) -> Result<Page, Fault> {
    let unreadable = |what: &str| {
        let message = format!("page {page_count} of the response {what}");
        Fault::permanent("page-unreadable", message)
    };
    let mut json: Value = serde_json::from_slice(bytes).map_err(|_| unreadable("is not JSON"))?;
    // The items stand in a list of all pages.
    if json::depth(&json) >= json::RESULT_DEPTH_MAX {
        return Err(unreadable("nests too deep"));
    }
    let items = find_mut(&mut json, &pages.items).map(Value::take);
    let Some(Value::Array(items)) = items else {
        return Err(unreadable(&format!("has no list at `{}`", pages.items)));
    };
    Ok(Page { items, json })
}

/// Where the next page is, where there is one: at the same origin, or nowhere.
fn find_next(
    sending: &Sending<'_>,
    current: &Url,
    headers: &HeaderMap,
    page: &Value,
    pages: &Pagination,
) -> Result<Option<Url>, Fault> {
    let next = match &pages.next {
        NextPage::Link => {
            let links = headers.get_all(LINK).iter();
            let links = links.filter_map(|value| value.to_str().ok());
            match links.filter_map(find_link).next() {
                Some(link) => current.join(link).map_err(|_| elsewhere())?,
                None => return Ok(None),
            }
        }
        NextPage::Cursor { path, query } => match read_cursor(page, path) {
            Some(cursor) => with_query(&sending.url, query, &cursor),
            None => return Ok(None),
        },
    };
    match next.origin() == sending.url.origin() && next.username().is_empty() {
        true => Ok(Some(next)),
        false => Err(elsewhere()),
    }
}

/// The address of `rel="next"` in a `Link` header.
fn find_link(header: &str) -> Option<&str> {
    let mut rest = header;
    while let Some((_, opened)) = rest.split_once('<') {
        let (address, after) = opened.split_once('>')?;
        let parameters = after.split('<').next().unwrap_or_default();
        let is_next = parameters.split([';', ',']).any(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            name.trim().eq_ignore_ascii_case("rel")
                && value
                    .trim()
                    .trim_matches('"')
                    .split_ascii_whitespace()
                    .any(|rel| rel.eq_ignore_ascii_case("next"))
        });
        if is_next {
            return Some(address);
        }
        rest = after;
    }
    None
}

fn read_cursor(page: &Value, path: &str) -> Option<String> {
    let found = path.split('.').try_fold(page, |value, name| match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        Value::Object(fields) => fields.get(name),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    });
    match found? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            None
        }
    }
}

fn with_query(url: &Url, name: &str, value: &str) -> Url {
    let others: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(found, _)| found != name)
        .map(|(found, value)| (found.into_owned(), value.into_owned()))
        .collect();
    let mut next = url.clone();
    next.query_pairs_mut()
        .clear()
        .extend_pairs(others)
        .append_pair(name, value);
    next
}

fn find_mut<'a>(json: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    if path.is_empty() {
        return Some(json);
    }
    path.split('.').try_fold(json, |value, name| match value {
        Value::Array(items) => items.get_mut(name.parse::<usize>().ok()?),
        Value::Object(fields) => fields.get_mut(name),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

fn receipt(answer: &Answer, items: Vec<Value>, page_count: u32, more: Option<Url>) -> Receipt {
    let mut response = answer.describe(Value::Array(items), "");
    response.insert("pages".to_owned(), page_count.into());
    if let Some(next) = more {
        response.insert("truncated".to_owned(), true.into());
        response.insert("next".to_owned(), next.as_str().into());
    }
    Receipt::new(Value::Object(response), Some(answer.status.as_u16()))
}

fn too_large() -> Fault {
    let message = "all pages together exceed 10 MiB: ask for fewer pages (`most`) or fewer items";
    Fault::permanent("answer-too-large", message)
}

/// Nothing happened, and the whole read is made again.
fn too_many_long_reads() -> Fault {
    let message = format!("other reads hold pages of more than {ANSWER_BYTES_MAX} bytes");
    Fault {
        retry_after: Some(LONG_READ_REST),
        ..Fault::passing("destination-busy", message).of(FaultKind::HeldBack)
    }
}

fn elsewhere() -> Fault {
    let message = "the next page has another origin than the first, so it was not read";
    Fault::permanent("page-refused", message)
}
