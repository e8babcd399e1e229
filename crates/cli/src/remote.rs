//! The server, as client commands see it: whom to ask, what its refusals mean, and the keys under
//! which a command can be repeated.

mod token_target;

pub(crate) use token_target::{is_loopback, is_readable_on_the_way};

use semel_api::{Client, ClientError, Code};
use semel_model::id::digest;

use crate::answer::{Problem, chain};
use crate::code;
use crate::config::Source;
use crate::context::Context;
use crate::outcome::Outcome;

/// The client of the configured server.
pub(crate) fn client(ctx: &Context) -> Result<Client, Problem> {
    let url = ctx
        .url()
        .ok_or_else(|| Problem::usage("no server is configured"))?;
    let Some(token) = ctx.token() else {
        let problem = Problem::new(
            Outcome::Denied,
            code::TOKEN_MISSING,
            "no token is configured",
        );
        return Err(problem.hint(
            "pass --token or set SEMEL_TOKEN; `semel migrate` prints the first token, and \
             `semel dev` leaves one in .semel/token",
        ));
    };
    let elsewhere = ctx.local_url().is_none_or(|local| local != url.value);
    if let (Source::Local(_), None) = (token.source, ctx.local_url()) {
        let problem = Problem::new(
            Outcome::Denied,
            code::TOKEN_MISSING,
            "`semel dev` is not running in this directory",
        );
        return Err(problem.hint(format!(
            "start it, or pass --token or set SEMEL_TOKEN for {}",
            url.value
        )));
    }
    if let (Source::Local(_), true) = (token.source, elsewhere) {
        let message = format!("the token of `semel dev` is not sent to {}", url.value);
        let problem = Problem::new(Outcome::Denied, code::TOKEN_MISSING, message);
        return Err(problem.hint("pass --token or set SEMEL_TOKEN for that server"));
    }
    token_target::check(&url, &token, ctx.may_send_in_the_clear())?;
    Client::new(&url.value, &token.value).map_err(|error| {
        let said = if url.source == Source::Default {
            String::new()
        } else {
            format!(" (from {})", url.source)
        };
        Problem::usage(format!("{error}: {}{said}", url.value))
    })
}

/// The client of the configured server, for a command that sends the value of a secret.
pub(crate) fn client_for_secret(ctx: &Context) -> Result<Client, Problem> {
    if let Some(url) = ctx.url() {
        token_target::check_secret(&url)?;
    }
    client(ctx)
}

/// The key of a command that was given none: the same for the same words, so that repeating the
/// command is safe. Where the same words can mean another thing later (promoting a release, then
/// another, then the first again), what the command found goes in among the words.
pub(crate) fn key_of(words: &[&str]) -> String {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    format!("cli-{}", hex::encode(digest("", &words)))
}

impl From<ClientError> for Problem {
    fn from(error: ClientError) -> Self {
        let outcome = outcome(&error);
        let (message, hint) = match &error {
            ClientError::Problem(problem) => (told(problem), advice(problem)),
            ClientError::Address(_) | ClientError::Unreachable(_) => {
                let hint = "start one with `semel dev` or `semel serve`, or name it with --url; \
                            `semel doctor` looks closer. Repeating the command is safe";
                (chain(&error), hint.to_owned())
            }
            ClientError::Malformed { .. } => (chain(&error), error.hint().to_owned()),
        };
        let problem = Self::new(outcome, error.code(), message).hint(hint);
        match &error {
            ClientError::Problem(told) => {
                let problem = match told.retry_in {
                    Some(span) => problem.retry_after(span),
                    None => problem,
                };
                match told.run {
                    Some(run) => problem.next(format!("semel run show {run}")),
                    None => problem,
                }
            }
            ClientError::Unreachable(_) => problem.next("semel doctor"),
            ClientError::Address(_) | ClientError::Malformed { .. } => problem,
        }
    }
}

fn told(problem: &semel_api::Problem) -> String {
    let mut text = match problem.detail.as_str() {
        "" => problem.title.clone(),
        detail => detail.to_owned(),
    };
    for found in &problem.diagnostics {
        let place = format!("{}:{}:{}", found.file, found.line, found.column);
        text.push_str(&format!("\n  {place}: {} ({})", found.message, found.help));
    }
    text
}

fn advice(problem: &semel_api::Problem) -> String {
    match problem.retry_in {
        Some(span) => format!("{} Try again in {span}.", problem.hint),
        None => problem.hint.clone(),
    }
}

/// What a refusal comes to.
fn outcome(error: &ClientError) -> Outcome {
    match error {
        ClientError::Address(_) => Outcome::Usage,
        ClientError::Unreachable(_) => Outcome::Unreachable,
        ClientError::Malformed { .. } => Outcome::Failed,
        ClientError::Problem(problem) => match problem.code() {
            Some(Code::PayloadMismatch | Code::CommandMismatch) => Outcome::Conflict,
            Some(Code::InstantNotScheduled | Code::TaskWithdrawn) => Outcome::NotFound,
            // What was asked for makes no sense, and would not a second time.
            Some(
                Code::InputInvalid
                | Code::TriggerNotDeclared
                | Code::FlowNameDiffers
                | Code::ConnectionInvalid
                | Code::SubscriptionInvalid
                | Code::AlertInvalid
                | Code::SecretInvalid
                | Code::BodyTooLarge,
            ) => Outcome::Usage,
            _ => of_status(problem.status),
        },
    }
}

const fn of_status(status: u16) -> Outcome {
    match status {
        400 => Outcome::Usage,
        401 | 403 => Outcome::Denied,
        404 => Outcome::NotFound,
        409 => Outcome::Conflict,
        // Nothing was done, and later it may be.
        408 | 429 | 502..=504 => Outcome::Unreachable,
        _ => Outcome::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: Code) -> Problem {
        ClientError::Problem(Box::new(semel_api::Problem::new(code, "it is so"))).into()
    }

    #[test]
    fn every_refusal_has_its_exit_code() {
        let outcome = |code| refused(code).into_answer().outcome;

        assert_eq!(outcome(Code::Unauthorized), Outcome::Denied);
        assert_eq!(outcome(Code::RunNotFound), Outcome::NotFound);
        assert_eq!(outcome(Code::RunEnded), Outcome::Conflict);
        assert_eq!(outcome(Code::PayloadMismatch), Outcome::Conflict);
        assert_eq!(outcome(Code::DatabaseUnavailable), Outcome::Unreachable);
        assert_eq!(outcome(Code::FlowInvalid), Outcome::Failed);
        assert_eq!(outcome(Code::KeyMissing), Outcome::Usage);
        assert_eq!(outcome(Code::KeyDeclared), Outcome::Usage);
        assert_eq!(outcome(Code::InputInvalid), Outcome::Usage);
        assert_eq!(outcome(Code::TooManyRequests), Outcome::Unreachable);
        assert_eq!(outcome(Code::InstantNotScheduled), Outcome::NotFound);
    }

    #[test]
    fn the_same_words_have_the_same_key_and_others_another() {
        assert_eq!(key_of(&["a", "bc"]), key_of(&["a", "bc"]));
        assert_ne!(key_of(&["a", "bc"]), key_of(&["ab", "c"]));
    }
}
