//! Keys, as a person without a mouse presses them.

use anyhow::{Result, bail};
use serde_json::json;

use super::Chromium;

/// How many times the tab key is pressed to come to something.
const TABS_MAX: usize = 300;

impl Chromium {
    /// Presses a key and lets it go.
    pub(in crate::console) fn press(&mut self, key: &str) -> Result<()> {
        let (code, number, text) = match key {
            "Enter" => ("Enter".to_owned(), 13, "\r".to_owned()),
            "Tab" => ("Tab".to_owned(), 9, String::new()),
            " " => ("Space".to_owned(), 32, " ".to_owned()),
            "/" => ("Slash".to_owned(), 191, "/".to_owned()),
            letter => {
                let upper = letter.to_uppercase();
                let number = upper.bytes().next().unwrap_or_default();
                (format!("Key{upper}"), u32::from(number), letter.to_owned())
            }
        };
        let kind = if text.is_empty() {
            "rawKeyDown"
        } else {
            "keyDown"
        };
        let down = json!({
            "type": kind, "key": key, "code": code, "text": text, "windowsVirtualKeyCode": number,
        });
        self.call("Input.dispatchKeyEvent", down)?;
        let up =
            json!({ "type": "keyUp", "key": key, "code": code, "windowsVirtualKeyCode": number });
        self.call("Input.dispatchKeyEvent", up)?;
        Ok(())
    }

    /// Types a text where the focus is.
    pub(in crate::console) fn type_text(&mut self, text: &str) -> Result<()> {
        let is_list = self.eval("document.activeElement.tagName === 'SELECT'")? == true;
        match is_list {
            true => {
                for letter in text.chars() {
                    self.press(&letter.to_string())?;
                }
            }
            false => {
                self.call("Input.insertText", json!({ "text": text }))?;
            }
        }
        Ok(())
    }

    /// Presses the tab key until the focus is where an expression says.
    pub(in crate::console) fn tab_to(&mut self, expression: &str) -> Result<()> {
        match self.tab_through(expression)? {
            true => Ok(()),
            false => bail!("the focus never comes to {expression}"),
        }
    }

    /// Presses the tab key through the page. Says whether the focus came to where an expression says, and
    /// stops there.
    pub(in crate::console) fn tab_through(&mut self, expression: &str) -> Result<bool> {
        for pressed in 0..TABS_MAX {
            if self.eval(&format!("Boolean({expression})"))? == true {
                return Ok(true);
            }
            // Behind the last one, the focus is with the page itself.
            let ended = self.eval("document.activeElement === document.body")? == true;
            if ended && pressed > 0 {
                return Ok(false);
            }
            self.press("Tab")?;
        }
        Ok(false)
    }
}
