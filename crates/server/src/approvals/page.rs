//! The page of an approval: plain HTML, no script, nothing from elsewhere.

use std::sync::LazyLock;

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use semel_api::Code;
use semel_model::approval::ApprovalDecision;
use semel_store::approvals::ApprovalView;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::in_words;
use crate::error::ApiError;

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:1rem/1.5 system-ui,sans-serif;margin:0 auto;max-width:42rem;padding:1.5rem 1rem}\
h1{font-size:1.4rem;line-height:1.25;margin:0 0 .25rem;overflow-wrap:anywhere}\
.about{margin:0 0 1.25rem;opacity:.75}\
table{border-collapse:collapse;width:100%}\
th,td{border-top:1px solid #8884;padding:.5rem .75rem .5rem 0;text-align:left;vertical-align:top}\
th{font-weight:600;width:30%}\
td,pre{overflow-wrap:anywhere}\
pre{font:.9rem/1.45 ui-monospace,monospace;margin:0;white-space:pre-wrap}\
label{display:block;font-weight:600;margin:1.5rem 0 .35rem}\
input,textarea{box-sizing:border-box;font:inherit;padding:.5rem;width:100%}\
.acts{display:flex;flex-wrap:wrap;gap:.75rem;margin-top:1rem}\
button{border:0;border-radius:.4rem;color:#fff;cursor:pointer;flex:1 1 9rem;font:inherit;\
font-weight:600;padding:.8rem 1rem}\
button:focus-visible,input:focus-visible,textarea:focus-visible{outline:3px solid #58a;outline-offset:2px}\
.yes{background:#1a7f37}.no{background:#b42318}\
.said{border-left:.3rem solid #888;margin:1.5rem 0;padding:.5rem 1rem}\
.said.yes{background:none;border-color:#1a7f37}.said.no{background:none;border-color:#b42318}\
code{font-size:.9em;overflow-wrap:anywhere}\
footer{font-size:.85rem;margin-top:2rem;opacity:.7}";

/// Nothing but our own style, and a form that leads back here.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = STANDARD.encode(Sha256::digest(STYLE));
    let text = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'"
    );
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

/// A secret address must not leak by a referrer or a cache, nor be shown inside another page.
const DISCREET: [(HeaderName, HeaderValue); 4] = [
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
];

/// Keeps a response out of caches, and its address out of referrers.
pub(super) fn discreet(mut response: Response) -> Response {
    response.headers_mut().extend(DISCREET);
    response
}

/// What is asked; and what was decided, where it was.
pub(super) fn show(view: &ApprovalView) -> Response {
    let act = match (&view.decision, view.login) {
        (Some(decision), _) => said(decision),
        (None, true) => by_command(view),
        (None, false) => form(view),
    };
    page(StatusCode::OK, &title(view), &asked(view, &act))
}

/// The decision that was just made, or was the same before.
pub(super) fn decided(view: &ApprovalView, decision: &ApprovalDecision) -> Response {
    // As the next request sees it: the first click and the second get the same page.
    let view = &ApprovalView {
        decision: Some(decision.clone()),
        ..view.clone()
    };
    page(StatusCode::OK, &title(view), &asked(view, &said(decision)))
}

/// Another decision stands.
pub(super) fn contrary(view: &ApprovalView, decision: &ApprovalDecision) -> Response {
    let note = "<p><strong>Nothing was changed: it had been decided before.</strong></p>";
    let act = format!("{note}{}", said(decision));
    page(StatusCode::CONFLICT, &title(view), &asked(view, &act))
}

/// There is nothing here, or not for this client.
pub(super) fn refuse(refusal: ApiError) -> Response {
    let problem = refusal.into_problem();
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::BAD_REQUEST);
    let hint = match problem.code() {
        Some(Code::ApprovalDiffers) => "Open the address again: it shows what there is to decide.",
        _ => problem.hint.as_str(),
    };
    let body = format!(
        "<h1>{}</h1><p>{}</p>",
        escaped(&problem.title),
        escaped(hint)
    );
    page(status, &problem.title, &body)
}

fn title(view: &ApprovalView) -> String {
    format!("Approval: {} of {}", view.step, view.flow)
}

fn asked(view: &ApprovalView, act: &str) -> String {
    let until = match view.until {
        Some(until) if view.decision.is_none() => format!(" There is time until {}.", day(until)),
        Some(_) | None => String::new(),
    };
    let people = view.people.join(", ");
    format!(
        "<h1>{} of {}</h1><p class=\"about\">Asked of {} on {}.{until}</p>{}{act}\
         <footer>Run <code>{}</code><br>Digest <code>{}</code></footer>",
        escaped(&view.step),
        escaped(&view.flow),
        escaped(&people),
        day(view.opened_at),
        shown(&serde_json::from_str(&view.shown).unwrap_or_default()),
        view.run,
        escaped(view.digest.as_str()),
    )
}

/// What is decided about: a map as a table, anything else as it is.
fn shown(value: &Value) -> String {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let row = |(name, value): (&String, &Value)| {
                format!(
                    "<tr><th>{}</th><td>{}</td></tr>",
                    escaped(name),
                    cell(value)
                )
            };
            let rows: String = fields.iter().map(row).collect();
            format!("<table>{rows}</table>")
        }
        Value::Null => "<p>The flow shows nothing besides.</p>".to_owned(),
        other @ (Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_)) => cell(other),
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => escaped(text),
        Value::Null => "–".to_owned(),
        Value::Bool(_) | Value::Number(_) => escaped(&value.to_string()),
        Value::Array(_) | Value::Object(_) => {
            let text = serde_json::to_string_pretty(value).unwrap_or_default();
            format!("<pre>{}</pre>", escaped(&text))
        }
    }
}

fn form(view: &ApprovalView) -> String {
    format!(
        "<form method=\"post\"><input type=\"hidden\" name=\"digest\" value=\"{}\">\
         <label for=\"name\">Your name</label>\
         <input id=\"name\" name=\"name\" required maxlength=\"100\" autocomplete=\"name\">\
         <p class=\"about\">It is recorded with your decision, as you give it. Decide only if you \
         are one of those who are asked.</p>\
         <label for=\"comment\">Comment (optional)</label>\
         <textarea id=\"comment\" name=\"comment\" rows=\"3\" maxlength=\"2000\"></textarea>\
         <div class=\"acts\">\
         <button class=\"yes\" name=\"decision\" value=\"approve\">Approve</button>\
         <button class=\"no\" name=\"decision\" value=\"reject\">Reject</button></div></form>",
        escaped(view.digest.as_str())
    )
}

/// How to decide where the link alone is not enough.
fn by_command(view: &ApprovalView) -> String {
    format!(
        "<div class=\"said\"><p>This link shows what is asked. To decide, use a token of your \
         own:</p><pre>semel approval approve {id}\nsemel approval reject {id}</pre></div>",
        id = view.wait
    )
}

fn said(decision: &ApprovalDecision) -> String {
    let class = if decision.approved { "yes" } else { "no" };
    let comment = decision
        .comment
        .as_deref()
        .map_or_else(String::new, |text| format!("<p>{}</p>", escaped(text)));
    format!(
        "<div class=\"said {class}\"><p><strong>It was {}.</strong></p>{comment}</div>",
        escaped(&in_words(decision))
    )
}

fn day(at: Timestamp) -> String {
    escaped(&at.strftime("%Y-%m-%d %H:%M UTC").to_string())
}

fn page(status: StatusCode, title: &str, body: &str) -> Response {
    let text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"robots\" content=\"noindex\"><title>{}</title>\
         <style>{STYLE}</style></head>\n<body><main>{body}</main></body>\n</html>\n",
        escaped(title)
    );
    let policy = [(CONTENT_SECURITY_POLICY, POLICY.clone())];
    discreet((status, policy, Html(text)).into_response())
}

/// Text with its HTML escaped.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_shown_cannot_become_part_of_the_page() {
        let hostile = json!({ "<b>": "<script>alert(1)</script>", "x": ["\"'&"] });

        let page = shown(&hostile);

        assert!(
            !page.contains("<script>") && !page.contains("<b>"),
            "{page}"
        );
        assert!(page.contains("&lt;script&gt;"), "{page}");
    }

    #[test]
    fn the_policy_names_the_style_and_nothing_else() {
        let policy = POLICY.to_str().unwrap();

        assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"));
        assert!(!policy.contains("unsafe"));
    }
}
