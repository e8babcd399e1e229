//! The names that an evaluation can see, lent for as long as it lasts.

use serde_json::Value;

/// Root names and the values behind them. Making one copies no value.
#[derive(Clone, Debug, Default)]
pub struct Scope<'a> {
    names: Vec<(&'a str, &'a Value)>,
}

impl<'a> Scope<'a> {
    /// A scope without a name in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a name; of two equal names the later one is seen.
    #[must_use]
    pub fn with(mut self, name: &'a str, value: &'a Value) -> Self {
        self.names.push((name, value));
        self
    }

    /// The value behind a name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&'a Value> {
        self.names
            .iter()
            .rev()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| *value)
    }
}

impl<'a> FromIterator<(&'a str, &'a Value)> for Scope<'a> {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a Value)>>(names: I) -> Self {
        Self {
            names: names.into_iter().collect(),
        }
    }
}
