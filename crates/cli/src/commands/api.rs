//! `semel api`.

use clap::ValueEnum;

use super::{Repeat, read_json};
use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::text::printable_lines;

/// Call an operation of the HTTP API.
///
/// The call goes to the configured server with the configured token. docs/api.md lists the operations;
/// `semel api GET /v1/openapi.json` is the server's own list.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel api GET /v1/whoami
  semel api GET '/v1/runs?state=failed&limit=5'
  semel api POST /v1/flows/orders/runs?wait=30s --body '{\"input\": {\"id\": 1}}'")]
pub(crate) struct Arguments {
    /// The method.
    #[arg(ignore_case = true)]
    method: Method,
    /// The path, which begins with /v1/, and its query.
    path: String,
    /// The body: JSON, @FILE, or - for stdin.
    #[arg(long, value_name = "JSON")]
    body: Option<String>,
    #[command(flatten)]
    repeat: Repeat,
}

/// The methods of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Method {
    Get,
    Post,
    Put,
    Delete,
}

impl Method {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let (method, path) = (arguments.method, arguments.path.as_str());
    if !path.starts_with("/v1/") {
        return Err(Problem::usage("the path has to begin with /v1/")
            .hint("docs/api.md lists the paths of the API"));
    }
    let body = arguments.body.as_deref().map(read_json).transpose()?;
    let key = match method {
        Method::Post => {
            let text = body.as_ref().map(ToString::to_string).unwrap_or_default();
            Some(arguments.repeat.key_or(&["api", path, &text]))
        }
        // The same again is the same: these need no key.
        Method::Get | Method::Put | Method::Delete => arguments.repeat.given().map(str::to_owned),
    };
    let client = remote::client(ctx)?;
    let answered = client.call(method.as_str(), path, body.as_ref(), key.as_deref());
    let answered = answered.await?;
    let text = serde_json::to_string_pretty(&answered.body).unwrap_or_default();
    let answer = Answer::done(&answered.body, printable_lines(&text));
    Ok(match answered.replayed {
        true => answer.note(
            "this is the response to an earlier call with the same words; \
             pass --idempotency-key for another one",
        ),
        false => answer,
    })
}
