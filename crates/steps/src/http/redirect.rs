//! Redirects: where an answer leads, for those that may follow it.

use hyper::header::LOCATION;
use semel_model::Fault;
use url::Url;

use super::answer::Answer;
use super::head;

/// Where an answer leads, if it leads anywhere.
pub(super) fn find(from: &Url, answer: &Answer) -> Result<Option<Url>, Fault> {
    let refuse = |why: &str| {
        let message = format!("the redirect leads {why}, so it was not followed");
        Fault::permanent("redirect-refused", message)
    };
    if !matches!(answer.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = answer.headers.get(LOCATION) else {
        return Ok(None);
    };
    let location = location.to_str().map_err(|_| refuse("nowhere"))?;
    let next = from.join(location).map_err(|_| refuse("nowhere"))?;
    let next = head::read_url(next.as_str()).map_err(|_| refuse("to an invalid address"))?;
    if from.scheme() == "https" && next.scheme() != "https" {
        return Err(refuse("from https to http"));
    }
    Ok(Some(next))
}
