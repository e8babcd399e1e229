//! A connection as the command line describes it.

use semel_model::Connection;
use semel_model::connection::fill::{self, FillError};
use semel_model::connection::preset::{KINDS, PRESETS, Preset};
use serde_json::Value;

use crate::answer::Problem;
use crate::commands::read_file;

use super::paths;

/// The description of a connection.
#[derive(Debug, clap::Args)]
pub(super) struct Description {
    /// A provider that Semel knows; `semel connection presets` lists them.
    #[arg(long, value_name = "PRESET", required_unless_present_any = ["file", "kind"])]
    preset: Option<String>,
    /// A file that describes it, YAML or JSON.
    #[arg(long, value_name = "FILE", conflicts_with = "preset")]
    file: Option<String>,
    /// A kind of destination: http, llm, postgres, slack, smtp, ssh, webhook.
    #[arg(long, value_name = "KIND", conflicts_with_all = ["preset", "file"])]
    kind: Option<String>,
    /// The name of the secret that it authenticates with; `semel secret set` sets its value.
    #[arg(long, value_name = "NAME")]
    secret: Option<String>,
    /// The address.
    #[arg(long = "base-url", value_name = "URL", visible_alias = "at")]
    address: Option<String>,
    /// The host.
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// The port.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// The database.
    #[arg(long, value_name = "NAME")]
    database: Option<String>,
    /// The user name.
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// The sender address of mail.
    #[arg(long, value_name = "ADDRESS")]
    from: Option<String>,
    /// The host key that is accepted: SHA256:…
    #[arg(long, value_name = "SHA256")]
    host_key: Option<String>,
    /// The protocol of a model's API: openai or anthropic.
    #[arg(long, value_name = "SHAPE")]
    shape: Option<String>,
    /// The default model of steps.
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Any other field by its path, e.g. limits.per_second=5; may be repeated.
    #[arg(long, value_name = "PATH=VALUE", value_parser = read_pair)]
    set: Vec<(String, Value)>,
}

impl Description {
    /// Puts the connection together.
    pub(super) fn read(&self) -> Result<Connection, Problem> {
        let (mut connection, preset) = match (&self.preset, &self.kind, &self.file) {
            (Some(name), _, _) => begin(name, PRESETS, "preset")?,
            (None, Some(kind), _) => begin(kind, KINDS, "kind")?,
            (None, None, Some(file)) => (read_described(file)?, None),
            (None, None, None) => {
                return Err(Problem::usage(
                    "the connection needs --preset, --file or --kind",
                ));
            }
        };
        for (flag, value) in self.given() {
            let path = place(preset, &connection, flag).ok_or_else(|| {
                let kind = kind_of(&connection).unwrap_or("this");
                Problem::usage(format!("a connection of the kind {kind} has no --{flag}"))
            })?;
            set(&mut connection, &path, value)?;
        }
        let kind = kind_of(&connection).map(str::to_owned);
        for (path, value) in &self.set {
            set(&mut connection, path, value.clone())?;
        }
        if let Some(missing) = preset.map(|preset| preset.missing(&connection))
            && !missing.is_empty()
        {
            let flags: Vec<String> = missing.iter().copied().map(named).collect();
            let name = preset.map_or("", |preset| preset.name);
            let message = format!("`{name}` needs {}", flags.join(", "));
            let hint = match name {
                "smtp" => "a server without a login: --kind smtp, with --host and --from alone",
                _ => "--secret takes a secret's name; `semel secret set NAME` sets its value",
            };
            return Err(Problem::usage(message).hint(hint));
        }
        fill::read(connection).map_err(|error| self.unfit(kind.as_deref(), &error))
    }

    /// What is wrong with a connection that cannot be read: where a path names no field, that alone.
    fn unfit(&self, kind: Option<&str>, error: &FillError) -> Problem {
        let unknown = |kind| {
            let mut named = self.set.iter().map(|(path, _)| path.as_str());
            let path = named.find(|path| !paths::is_known(kind, path))?;
            Some((kind, path))
        };
        match (error, kind.and_then(unknown)) {
            (FillError::Unfit(_), Some((kind, path))) => {
                Problem::usage(format!("a {kind} connection has no field `{path}`"))
                    .hint(paths::hint(kind, path))
            }
            (FillError::Unfit(_) | FillError::Path(_) | FillError::Renamed { .. }, _) => {
                Problem::usage(error.to_string())
                    .hint("semel explain connections lists the fields of each kind")
            }
        }
    }

    /// The flags that were given, by the names of the holes that they fill.
    fn given(&self) -> Vec<(&'static str, Value)> {
        let texts = [
            ("secret", &self.secret),
            ("url", &self.address),
            ("host", &self.host),
            ("database", &self.database),
            ("user", &self.user),
            ("from", &self.from),
            ("host-key", &self.host_key),
            ("shape", &self.shape),
            ("model", &self.model),
        ];
        let texts = texts.into_iter();
        let mut given: Vec<(&str, Value)> = texts
            .filter_map(|(name, text)| Some((name, Value::from(text.as_deref()?))))
            .collect();
        given.extend(self.port.map(|port| ("port", Value::from(port))));
        given
    }
}

/// The flag that fills a hole.
fn named(hole: &str) -> String {
    match hole {
        "url" => "--base-url".to_owned(),
        other => format!("--{other}"),
    }
}

fn begin(
    name: &str,
    among: &'static [Preset],
    what: &str,
) -> Result<(Value, Option<&'static Preset>), Problem> {
    let found = among.iter().find(|preset| preset.name == name);
    let Some(preset) = found else {
        let names: Vec<&str> = among.iter().map(|preset| preset.name).collect();
        return Err(Problem::usage(format!("unknown {what} `{name}`"))
            .hint(format!("choose one of {}", names.join(", ")))
            .next("semel connection presets"));
    };
    Ok((preset.template(), Some(preset)))
}

/// Where a flag's value stands: as the preset says, or as the bare kind does.
fn place(preset: Option<&Preset>, connection: &Value, flag: &str) -> Option<String> {
    let bare = || Preset::of_kind(kind_of(connection)?)?.hole(flag);
    let hole = preset.and_then(|preset| preset.hole(flag)).or_else(bare)?;
    Some(hole.path.to_owned())
}

fn kind_of(connection: &Value) -> Option<&str> {
    let to = connection.get("to")?.as_object()?;
    to.keys().next().map(String::as_str)
}

fn set(connection: &mut Value, path: &str, value: Value) -> Result<(), Problem> {
    fill::set(connection, path, value).map_err(|error| Problem::usage(error.to_string()))
}

/// Reads a file, YAML or JSON: the latter is the former.
fn read_described(file: &str) -> Result<Value, Problem> {
    let text = read_file(file)?;
    serde_saphyr::from_str(&text).map_err(|error| {
        Problem::usage(format!("{file} cannot be read: {error}")).hint(
            "write `to: { http: { base_url: https://… } }`; semel explain connections has examples",
        )
    })
}

/// Reads `path=value`: a number, true, false, a list or a map as JSON, anything else as text.
fn read_pair(text: &str) -> Result<(String, Value), String> {
    let (path, value) = text
        .split_once('=')
        .filter(|(path, _)| !path.is_empty())
        .ok_or("expected PATH=VALUE, e.g. limits.per_second=5")?;
    let read = serde_json::from_str(value);
    Ok((path.to_owned(), read.unwrap_or_else(|_| value.into())))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        description: Description,
    }

    fn described(words: &[&str]) -> Result<Connection, Problem> {
        let words = std::iter::once("create").chain(words.iter().copied());
        Line::try_parse_from(words).unwrap().description.read()
    }

    #[test]
    fn a_preset_needs_no_more_than_its_secret() {
        let stripe = described(&["--preset", "stripe", "--secret", "stripe_key"]).unwrap();

        assert_eq!(stripe.secrets(), vec!["stripe_key"]);
        assert_eq!(stripe.idempotency_keys.window.unwrap().to_string(), "1d");
    }

    #[test]
    fn what_is_missing_is_named_by_its_flag() {
        let problem = described(&["--preset", "smtp", "--host", "mail.example"]).unwrap_err();

        assert_eq!(problem.message(), "`smtp` needs --from, --user, --secret");
    }

    #[test]
    fn any_field_can_be_set_by_its_path() {
        let words = [
            "--kind",
            "http",
            "--base-url",
            "https://a.example",
            "--set",
            "limits.per_second=5",
            "--set",
            "to.http.auth={\"basic\":{\"user\":\"u\",\"secret\":\"s\"}}",
            "--set",
            "idempotency_keys.window=2d",
        ];

        let connection = serde_json::to_value(described(&words).unwrap()).unwrap();

        assert_eq!(connection["limits"]["per_second"], 5);
        assert_eq!(connection["to"]["http"]["auth"]["basic"]["user"], "u");
        assert_eq!(connection["idempotency_keys"], json!({"window": "2d"}));
    }

    #[test]
    fn a_flag_that_the_kind_does_not_have_is_refused() {
        let problem =
            described(&["--preset", "slack", "--secret", "s", "--host", "h"]).unwrap_err();

        assert!(
            problem.message().contains("--host"),
            "{}",
            problem.message()
        );
    }
}
