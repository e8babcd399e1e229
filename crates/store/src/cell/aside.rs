//! A cell beside the one that serves: a schema of a rehearsal in the same database.

use std::sync::Arc;

use uuid::Uuid;

use super::{Cell, CellOptions, Connector, Shared};

/// What the name of every such schema begins with.
const PREFIX: &str = "semel_rehearsal_";

/// How many connections serve the engine's work in a rehearsal: each costs the server as much as
/// many cases.
const CONNECTIONS: usize = 3;

/// A schema of a rehearsal. Its name says when it was made, in seconds, and is made of letters,
/// digits and underscores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RehearsalSchema(String);

impl RehearsalSchema {
    /// A name that no other rehearsal has.
    pub(crate) fn new(now: i64) -> Self {
        let random = Uuid::now_v7().as_u128() as u32;
        Self(format!("{PREFIX}{now}_{random:08x}"))
    }

    /// A schema and when it was made; nothing where the name is not one that [`Self::new`] gives.
    pub(crate) fn read(name: String) -> Option<(Self, i64)> {
        let (made_at, random) = name.strip_prefix(PREFIX)?.split_once('_')?;
        let made_at = made_at.parse().ok()?;
        let is_ours = random.chars().all(|c| c.is_ascii_hexdigit());
        is_ours.then_some((Self(name), made_at))
    }

    /// Its name in the database.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Cell {
    /// A cell on a schema of a rehearsal in the same database, with connections of its own. What it
    /// acknowledges may be lost: nothing of it is kept.
    #[must_use]
    pub fn in_schema(&self, schema: &RehearsalSchema) -> Self {
        let mut connector = Connector {
            accept_unsafe: true,
            schema: schema.as_str().to_owned(),
            ..self.connector.clone()
        };
        let asked = connector.config.get_options().unwrap_or_default();
        let options = format!("{asked} -c synchronous_commit=off");
        connector.config.options(options.trim());
        connector.config.application_name("semel rehearse");
        Self {
            shared: Arc::new(Shared::new(&connector, CONNECTIONS)),
            for_people: false,
            connector,
            options: CellOptions {
                accept_unsafe: true,
                ..self.options.clone()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_schema_says_when_it_was_made() {
        let schema = RehearsalSchema::new(1_790_000_000);
        let read = |name: &str| RehearsalSchema::read(name.to_owned());

        assert_eq!(read(schema.as_str()), Some((schema.clone(), 1_790_000_000)));
        assert_eq!(read("public"), None);
        assert_eq!(read("semel_rehearsal_x_1"), None);
        assert_eq!(read("semel_rehearsal_1_a; DROP"), None);
    }
}
