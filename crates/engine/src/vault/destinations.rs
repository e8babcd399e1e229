//! Where the connections of a namespace lead.

use std::collections::HashMap;
use std::sync::Arc;

use semel_model::{Connection, Span};
use semel_steps::Destination;

/// The destinations of a namespace, by name.
#[derive(Default)]
pub struct Destinations {
    by_name: HashMap<String, Arc<Destination>>,
}

impl Destinations {
    pub(super) fn add(&mut self, destination: Destination) {
        let name = destination.name.clone();
        self.by_name.insert(name, Arc::new(destination));
    }

    /// The destination of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<Destination>> {
        self.by_name.get(name)
    }

    /// The longest that one of them remembers a key.
    pub(super) fn longest_window(&self) -> Option<Span> {
        let all = self.by_name.values();
        all.filter_map(|it| it.connection.idempotency_keys.window)
            .max()
    }

    /// What its owner says of the connection of that name.
    #[must_use]
    pub fn connection(&self, name: &str) -> Option<&Connection> {
        self.find(name).map(|destination| &destination.connection)
    }
}
