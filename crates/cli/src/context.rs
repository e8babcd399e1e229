//! What every command is given: whom it speaks to, and what is configured.

use crate::answer::Problem;
use crate::arguments::Global;
use crate::config::{Config, Key, Setting};
use crate::output::Reader;
use crate::style::Style;

/// What every command is given.
pub(crate) struct Context {
    pub(crate) reader: Reader,
    /// The style of what goes to stdout.
    pub(crate) style: Style,
    pub(crate) config: Config,
    global: Global,
}

impl Context {
    /// Reads what is configured.
    pub(crate) fn new(global: Global) -> Result<Self, Problem> {
        Ok(Self {
            reader: global.reader(),
            style: Style::of_stdout(),
            config: Config::read()?,
            global,
        })
    }

    /// The server that client commands speak to.
    pub(crate) fn url(&self) -> Option<Setting> {
        self.config.find(Key::Url, self.global.url.as_deref())
    }

    /// The token that they show.
    pub(crate) fn token(&self) -> Option<Setting> {
        self.config.find(Key::Token, self.global.token.as_deref())
    }
}
