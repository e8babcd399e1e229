//! What every command is given: whom it speaks to, and what is configured.

use crate::answer::Problem;
use crate::config::{Config, Key, Setting};
use crate::global::Global;
use crate::output::{self, Reader};
use crate::style::Style;
use crate::text;

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
        if global.token.is_some() {
            output::note(&text::on_the_command_line("--token", Key::Token.env()));
        }
        Ok(Self {
            reader: global.reader(),
            style: Style::of_stdout(),
            config: Config::read()?,
            global,
        })
    }

    /// The value of a key, flags that every command takes included.
    pub(crate) fn find(&self, key: Key) -> Option<Setting> {
        let flag = if key == Key::Url {
            self.global.url.as_deref()
        } else if key == Key::Token {
            self.global.token.as_deref()
        } else {
            None
        };
        self.config.find(key, flag)
    }

    /// The server that client commands use.
    pub(crate) fn url(&self) -> Option<Setting> {
        self.find(Key::Url)
    }

    /// Where the `semel dev` of this directory listens, while it does.
    pub(crate) fn local_url(&self) -> Option<String> {
        self.config.find_local(Key::Url)
    }

    /// Whether a token may cross the network in the clear.
    pub(crate) const fn may_send_in_the_clear(&self) -> bool {
        self.global.insecure
    }

    /// The token that they show.
    pub(crate) fn token(&self) -> Option<Setting> {
        self.find(Key::Token)
    }
}
