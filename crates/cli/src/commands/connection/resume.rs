//! `semel connection resume`.

use semel_api::types::AskResume;
use semel_model::Label;

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;

/// Resume a connection that is paused: the runs that it held up continue.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The connection.
    name: Label,
    /// How many of the runs that were held up continue in a second, over all servers; all at once without it.
    #[arg(long, value_name = "N/s", value_parser = read_rate)]
    rate: Option<f64>,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    repeat: Repeat,
}

/// `20/s`, or `20`.
fn read_rate(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    match number.parse() {
        Ok(rate) if rate > 0.0 && f64::is_finite(rate) => Ok(rate),
        Ok(_) | Err(_) => Err("write how many in a second, such as 20/s".to_owned()),
    }
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let name = &arguments.name;
    let ask = AskResume {
        reason: arguments.reason.clone(),
        per_second: arguments.rate,
    };
    let client = remote::client(ctx)?;
    let key = arguments.repeat.given();
    let resumed = client.resume_connection(name, &ask, key).await?.body;
    let text = match (resumed.changed, arguments.rate) {
        (true, Some(rate)) => {
            format!("{name} is resumed; held runs continue at {rate} in a second")
        }
        (true, None) => format!("{name} is resumed"),
        (false, _) => format!("{name} was not paused"),
    };
    Ok(Answer::done(&resumed, text).next(format!("semel connection show {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_in_a_second() {
        assert_eq!(read_rate("20/s"), Ok(20.0));
        assert_eq!(read_rate("0.5"), Ok(0.5));
        for bad in ["", "0", "-1/s", "20/m", "inf", "NaN"] {
            assert!(read_rate(bad).is_err(), "{bad}");
        }
    }
}
