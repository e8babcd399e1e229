//! `semel secret set`: the value comes from stdin, and goes to the server alone.

mod terminal;

use std::io::{IsTerminal as _, Read as _};

use semel_api::types::SetSecret;
use semel_model::host::HostPattern;
use semel_model::{Label, SecretText, Span};

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;

/// A value longer than this is a mistake, in bytes.
const VALUE_BYTES_MAX: u64 = 64 * 1024;

/// Set a secret. Its value is read from stdin; at a terminal the command prompts for it and does
/// not show it.
///
/// A line end behind the value is cut. Safe to repeat: the same value again is no change. The
/// previous value still verifies deliveries for a while, so that you can switch the sender over;
/// the same value again with `--overlap 0s` ends that at once, for example where it leaked.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel secret set stripe_key --host api.stripe.com
  semel secret set deploy_key < ~/.ssh/deploy_ed25519
  semel secret set stripe_signing --overlap 0s    the value before this one verifies nothing any more")]
pub(crate) struct Arguments {
    /// The name that connections and triggers use.
    name: Label,
    /// A value does not belong on the command line: it would stand in the shell's history.
    #[arg(hide = true, value_name = "VALUE")]
    value: Option<std::ffi::OsString>,
    /// How long the previous value still verifies deliveries [default: 1d].
    #[arg(long, value_name = "SPAN")]
    overlap: Option<Span>,
    /// A host that it may be sent to, as api.stripe.com or *.example.com; may be repeated. Connections
    /// that lead elsewhere cannot use it [default: unchanged; a new secret may go to any host].
    #[arg(long, value_name = "HOST")]
    host: Vec<HostPattern>,
    /// Let it be sent to any host; removes the hosts that it has.
    #[arg(long, conflicts_with = "host")]
    any_host: bool,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let name = &arguments.name;
    if arguments.value.is_some() {
        return Err(Problem::usage(
            "a value does not belong on the command line: others can read it there",
        )
        .hint(format!(
            "pipe it in (… | semel secret set {name}), or leave it out and type it; \
                     and change the one that stands in your shell's history"
        )));
    }
    let client = remote::client_for_secret(ctx)?;
    let value = match std::io::stdin().is_terminal() {
        true => terminal::ask(&format!("value of {name} for {}: ", client.base()))?,
        false => piped()?,
    };
    if value.reveal().is_empty() {
        return Err(Problem::usage("stdin is empty")
            .hint(format!("pipe the value in: … | semel secret set {name}")));
    }
    let set = SetSecret {
        value,
        overlap: arguments.overlap,
        hosts: match (arguments.any_host, arguments.host.is_empty()) {
            (true, _) => Some(Vec::new()),
            (false, true) => None,
            (false, false) => Some(arguments.host.clone()),
        },
    };
    let set = client.set_secret(name, &set, None).await?.body;
    let text = match (set.retired, set.changed) {
        (true, _) => match set.former_until {
            Some(until) => {
                format!("{name} has this value already; a former value verifies until {until}")
            }
            None => {
                format!("{name} has this value already; the former value verifies nothing any more")
            }
        },
        (false, true) => format!("{name} is set, version {}", set.version),
        (false, false) => format!(
            "{name} had this value and these hosts already, version {}",
            set.version
        ),
    };
    Ok(Answer::done(&set, text).next("semel secret list"))
}

fn piped() -> Result<SecretText, Problem> {
    let mut text = String::new();
    let read = std::io::stdin()
        .take(VALUE_BYTES_MAX)
        .read_to_string(&mut text);
    // The error does not quote the input.
    read.map_err(|_| Problem::usage("the value on stdin is not UTF-8 text"))?;
    Ok(cut(text))
}

/// Cuts one line end, which an editor or `echo` left behind.
fn cut(mut text: String) -> SecretText {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    SecretText::new(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_end_is_cut_and_no_more() {
        let cut = |text: &str| cut(text.to_owned()).reveal().to_owned();

        assert_eq!(cut("hush\n"), "hush");
        assert_eq!(cut("hush\r\n"), "hush");
        assert_eq!(cut("hush \n\n"), "hush \n");
        assert_eq!(cut("hush"), "hush");
    }
}
