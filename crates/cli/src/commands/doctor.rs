//! `semel doctor`: what is in order, what is not, and the fix.

mod database;
mod deep;
mod server;

use semel_server::oidc::check_provider;
use serde::Serialize;

use super::serve::{Database, oidc, plain_http};
use crate::answer::{Answer, Problem};
use crate::archive;
use crate::code;
use crate::config::Key;
use crate::context::Context;
use crate::outcome::Outcome;
use crate::remote::is_readable_on_the_way;
use crate::style::{Style, Tone, cell, render, toned_cell};
use crate::version;

/// Less free space than this is worth a look, in bytes.
const FREE_BYTES_MIN: u64 = 2 << 30;

/// Check this machine, the database and the server, and say what to fix.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    database: Database,
    /// Also read the whole database for runs that sleep although they could continue, and whatever else must not be there.
    #[arg(long)]
    deep: bool,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Line {
    state: State,
    subject: &'static str,
    found: String,
    mend: Option<String>,
    /// The report of a deep look.
    #[serde(skip_serializing_if = "Option::is_none")]
    deep: Option<deep::Deep>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    Warn,
    Fail,
}

impl Line {
    fn ok(subject: &'static str, found: impl Into<String>) -> Self {
        Self {
            state: State::Ok,
            subject,
            found: found.into(),
            mend: None,
            deep: None,
        }
    }

    fn warn(subject: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Self {
        Self {
            state: State::Warn,
            subject,
            found: found.into(),
            mend: Some(mend.into()),
            deep: None,
        }
    }

    fn fail(subject: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Self {
        Self {
            state: State::Fail,
            ..Self::warn(subject, found, mend)
        }
    }
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let mut lines = vec![Line::ok("version", version::FULL), configuration(ctx)];
    lines.extend(database::look(ctx, &arguments.database).await);
    if arguments.deep {
        lines.extend(deep::look(ctx, &arguments.database).await);
    }
    lines.extend(server::look(ctx).await);
    lines.extend(transport(ctx));
    lines.extend(provider(ctx).await);
    lines.extend(archived(ctx).await);
    lines.push(disk(ctx));
    let failed = lines
        .iter()
        .filter(|line| line.state == State::Fail)
        .count();
    let answer = Answer::done(&lines, table(&lines, ctx.style));
    Ok(if failed == 0 {
        answer
    } else {
        let message = format!("{failed} of {} checks failed", lines.len());
        answer.with_fault(Outcome::Failed, code::NOT_IN_ORDER, &message)
    })
}

fn configuration(ctx: &Context) -> Line {
    let given = Key::ALL
        .iter()
        .filter_map(|key| ctx.config.find(*key, None))
        .filter(|setting| setting.source != crate::config::Source::Default)
        .count();
    Line::ok(
        "config",
        format!("{given} values set; `semel config show` lists them"),
    )
}

/// Whether others can read what goes between the server and its clients: as this command reaches the
/// server, and as `semel serve` is configured here.
fn transport(ctx: &Context) -> Option<Line> {
    if let Some(url) = ctx.url().filter(|url| is_readable_on_the_way(&url.value)) {
        let found = format!("{} is plain HTTP: others can read tokens", url.value);
        return Some(Line::warn("transport", found, "reach it by https"));
    }
    let listen = ctx.config.find(Key::Listen, None)?;
    let public = ctx.config.find(Key::PublicUrl, None);
    let public = public.as_ref().map(|setting| setting.value.as_str());
    let found = plain_http::in_the_clear(&listen.value, public)?;
    let mend = "put a TLS proxy in front, and set SEMEL_PUBLIC_URL to its https address";
    Some(Line::warn("transport", found, mend))
}

/// Whether the identity provider's documents can be read, where one is configured here.
async fn provider(ctx: &Context) -> Option<Line> {
    let mend =
        "compare SEMEL_OIDC_ISSUER with what the provider calls itself, and reach it from here";
    let options = match oidc::configured(ctx, &oidc::ProviderArguments::default()) {
        Ok(options) => options?,
        Err(problem) => return Some(Line::fail("identity", problem.message(), mend)),
    };
    Some(match check_provider(&options).await {
        Ok(found) => Line::ok("identity", found),
        Err(why) => Line::fail("identity", why, mend),
    })
}

/// Whether ended runs can be archived, where a place is configured here.
async fn archived(ctx: &Context) -> Option<Line> {
    let setting = ctx.config.find(Key::Archive, None)?;
    let mend = "make SEMEL_ARCHIVE a place that can be written: until then no old run is deleted";
    Some(match archive::configured(ctx, None).await {
        Ok(_) => Line::ok("archive", format!("{} can be written", setting.value)),
        Err(problem) => Line::fail("archive", problem.message(), mend),
    })
}

fn disk(ctx: &Context) -> Line {
    let Ok(space) = rustix::fs::statvfs(ctx.config.directory()) else {
        return Line::warn("disk", "free space is unknown", "check with `df`");
    };
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let found = format!("{} MiB free in the working directory", free >> 20);
    if free < FREE_BYTES_MIN {
        Line::warn(
            "disk",
            found,
            "make room: PostgreSQL stops when its disk is full",
        )
    } else {
        Line::ok("disk", found)
    }
}

fn table(lines: &[Line], style: Style) -> String {
    let mut table = style.table(&["", "SUBJECT", "FOUND", "FIX"]);
    for line in lines {
        let (tone, word) = match line.state {
            State::Ok => (Tone::Good, "ok"),
            State::Warn => (Tone::Odd, "warn"),
            State::Fail => (Tone::Bad, "fail"),
        };
        table.add_row([
            toned_cell(tone, word),
            cell(line.subject),
            cell(&line.found),
            cell(line.mend.as_deref().unwrap_or("")),
        ]);
    }
    render(&table)
}
