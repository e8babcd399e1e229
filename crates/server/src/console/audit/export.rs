//! The audit record as a file: what a filter finds, as CSV or JSON.

use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use semel_api::Code;
use semel_api::types::{AuditRecord, Page as Found};
use semel_model::Right;

use super::filter;
use crate::answer::Answered;
use crate::app::App;
use crate::audit::record_export;
use crate::console::visit::Visit;
use crate::console::{runs, words};
use crate::error::ApiError;

/// The most acts of one file: `semel audit export` writes all.
const ACTS_MAX: usize = 10_000;

/// The columns of a table.
const HEADER: &str = "at,actor,action,subject,reason,run,position,digest\r\n";

/// `GET /console/{namespace}/audit/export`.
pub(in crate::console) async fn export(State(app): State<App>, visit: Visit) -> Answered {
    if visit.lacks(Right::Audit).is_some() {
        return Err(visit.caller().lacks(Right::Audit));
    }
    let as_table = match visit.parameter("format") {
        "csv" => true,
        "json" => false,
        _ => {
            let detail = "`format` is `csv` or `json`";
            return Err(ApiError::new(Code::QueryInvalid, detail));
        }
    };
    let acts = read(&visit).await?;
    record_export(&app, visit.caller(), &extent(&acts)).await?;
    match as_table {
        true => Ok(file(table(&acts), "text/csv; charset=utf-8", "audit.csv")),
        false => match serde_json::to_string_pretty(&acts) {
            Ok(text) => Ok(file(text, "application/json", "audit.json")),
            Err(_) => Err(ApiError::internal("acts that cannot be written")),
        },
    }
}

async fn read(visit: &Visit) -> Result<Vec<AuditRecord>, ApiError> {
    let mut acts = Vec::new();
    let mut cursor = String::new();
    // How long ago something was counts from now, for every page.
    let spelled = runs::spell(visit, &filter(visit));
    loop {
        let named = spelled.iter();
        let mut asked: Vec<(&str, &str)> =
            named.map(|(name, value)| (*name, value.as_str())).collect();
        asked.extend([("limit", "500"), ("cursor", cursor.as_str())]);
        let address = words::address("/v1/audit", &asked);
        let found: Found<AuditRecord> = visit.get(&address).await?;
        acts.extend(found.items);
        match found.next {
            Some(_) if acts.len() >= ACTS_MAX => {
                let detail = format!(
                    "there are more than {ACTS_MAX} acts: narrow the time, or use `semel audit export`"
                );
                return Err(ApiError::new(Code::QueryInvalid, detail));
            }
            Some(next) => cursor = next,
            None => return Ok(acts),
        }
    }
}

/// The extent of a file, by the ids of its acts: an act that is not sealed yet has no position.
fn extent(acts: &[AuditRecord]) -> String {
    let numbers = || acts.iter().map(|act| act.id);
    match (numbers().min(), numbers().max()) {
        (Some(first), Some(last)) => format!("{} acts, id {first} to {last}", acts.len()),
        (None, _) | (_, None) => "no acts".to_owned(),
    }
}

fn file(text: String, kind: &'static str, name: &'static str) -> Response {
    let mut response = text.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    let attached = format!("attachment; filename=\"{name}\"");
    if let Ok(attached) = HeaderValue::try_from(attached) {
        headers.insert(CONTENT_DISPOSITION, attached);
    }
    response
}

fn table(acts: &[AuditRecord]) -> String {
    let mut text = HEADER.to_owned();
    for act in acts {
        let run = act.run.map(|run| run.to_string()).unwrap_or_default();
        let position = act.position.map(|it| it.to_string()).unwrap_or_default();
        let fields = [
            &act.at.to_string(),
            &act.actor,
            &act.action,
            &act.subject,
            act.reason.as_deref().unwrap_or_default(),
            &run,
            &position,
            act.digest.as_deref().unwrap_or_default(),
        ];
        let fields = fields.map(cell);
        text.push_str(&fields.join(","));
        text.push_str("\r\n");
    }
    text
}

/// A field of a table, in quotes. What a program for tables would compute is made a text.
fn cell(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let mark = if is_formula { "'" } else { "" };
    format!("\"{mark}{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_breaks_out_of_no_cell_and_computes_nothing() {
        assert_eq!(cell("a \"b\", c\n"), "\"a \"\"b\"\", c\n\"");
        assert_eq!(cell("=1+1"), "\"'=1+1\"");
        assert_eq!(cell("@x"), "\"'@x\"");
    }
}
