//! The paths of a connection's fields, for those that `--set` misses.

/// Fields of every kind.
const OF_EVERY_KIND: &[&str] = &[
    "idempotency_keys.window",
    "idempotency_keys.as",
    "final_refusals",
    "acts_within",
    "find_url",
    "limits.concurrency",
    "limits.per_second",
    "limits.open_after",
    "limits.open_for",
    "timeout",
];

/// Fields of one kind, behind `to.KIND.`.
const OF_KIND: &[(&str, &[&str])] = &[
    (
        "http",
        &["base_url", "auth", "headers", "trust", "redirects"],
    ),
    (
        "postgres",
        &["host", "port", "database", "user", "secret", "tls", "trust"],
    ),
    ("smtp", &["host", "port", "tls", "user", "secret", "from"]),
    (
        "ssh",
        &["host", "port", "user", "secret", "host_key", "env"],
    ),
    ("slack", &["base_url", "secret"]),
    ("webhook", &["url", "secret"]),
    ("llm", &["shape", "base_url", "secret", "model", "price"]),
];

/// Whether a path leads to a field of a connection of the kind, into one, or to a map of fields.
pub(super) fn is_known(kind: &str, path: &str) -> bool {
    let is_at = |field: &str| {
        let inside = |outer: &str, inner: &str| {
            inner
                .strip_prefix(outer)
                .is_some_and(|it| it.starts_with('.'))
        };
        field == path || inside(field, path) || inside(path, field)
    };
    all(kind).iter().any(|field| is_at(field))
}

/// The path that was meant, where one field of the kind has that name; otherwise the paths that there are.
pub(super) fn hint(kind: &str, path: &str) -> String {
    let leaf = path.rsplit('.').next().unwrap_or(path);
    let all = all(kind);
    let mut alike = all
        .iter()
        .filter(|field| field.rsplit('.').next() == Some(leaf));
    match (alike.next(), alike.next()) {
        (Some(field), None) => format!("did you mean --set {field}=…?"),
        (Some(_) | None, _) => format!(
            "it has {}; semel explain connections says what they mean",
            all.join(", ")
        ),
    }
}

fn all(kind: &str) -> Vec<String> {
    let own = OF_KIND.iter().find(|(name, _)| *name == kind);
    let own = own.map(|(_, fields)| *fields).unwrap_or_default();
    let own = own.iter().map(|field| format!("to.{kind}.{field}"));
    own.chain(OF_EVERY_KIND.iter().map(|field| (*field).to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use semel_model::connection::fill;
    use semel_model::connection::preset::KINDS;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_that_misses_leads_to_the_field() {
        for path in ["tls", "to.tls", "postgres.tls"] {
            assert!(!is_known("postgres", path), "{path}");
            assert_eq!(
                hint("postgres", path),
                "did you mean --set to.postgres.tls=…?"
            );
        }
        assert!(hint("http", "tls").starts_with("it has to.http.base_url, to.http.auth"));
        for path in [
            "to.postgres.tls",
            "limits",
            "to.http.auth.bearer.secret",
            "idempotency_keys.as.header",
        ] {
            let kind = if path.contains("http") {
                "http"
            } else {
                "postgres"
            };
            assert!(is_known(kind, path), "{path}");
        }
    }

    #[test]
    fn every_path_is_a_field_and_every_kind_has_paths() {
        for kind in KINDS {
            assert!(OF_KIND.iter().any(|(name, _)| *name == kind.name));
            for path in all(kind.name) {
                let mut connection = kind.template();
                for hole in kind.needs {
                    fill::set(&mut connection, hole.path, json!("openai")).unwrap();
                }
                fill::set(&mut connection, &path, json!({ "no-such": 1 })).unwrap();

                let said = fill::read(connection).map_err(|error| error.to_string());

                let names = format!("unknown field `{}`", path.rsplit('.').next().unwrap());
                assert!(
                    !said.is_err_and(|said| said.contains(&names)),
                    "{path} is no field"
                );
            }
        }
    }
}
