//! Addresses: absolute, with a host that no value can choose.

use crate::diagnostic::Code;
use crate::expr::Scope;
use crate::template::TextTemplate;
use crate::yaml::Node;

use super::super::Reader;
use super::super::names::Names;

impl Reader<'_> {
    /// An address. Constants of `env` are put in their place first, so that a host may be one.
    pub(super) fn url(
        &mut self,
        node: &Node,
        field: &str,
        names: Names<'_>,
    ) -> Option<TextTemplate> {
        let template = self.text_template(node, field, names)?;
        let env = self.env.clone();
        let scope = Scope::new().with("env", &env);
        let template = match template.fold("env", &scope) {
            Ok(template) => template,
            Err(error) => {
                let help = "declare it under `env`";
                let message = error.to_string();
                self.report(Code::UrlInvalid, node.span.clone(), &message, help);
                return None;
            }
        };
        match fault(&template) {
            None => Some(template),
            Some((message, help)) => {
                self.report(Code::UrlInvalid, node.span.clone(), message, help);
                None
            }
        }
    }
}

/// What is wrong with an address, and the mend.
fn fault(template: &TextTemplate) -> Option<(&'static str, &'static str)> {
    let prefix = template.prefix();
    let rest = prefix
        .strip_prefix("https://")
        .or_else(|| prefix.strip_prefix("http://"));
    let Some(rest) = rest else {
        return Some((
            "an address is absolute and begins with https:// or http://",
            "write the host out, or keep it in `env`: a value must not choose it",
        ));
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    if host.len() == rest.len() && !template.is_constant() {
        return Some((
            "a value must not choose the host",
            "close the host with `/` before the first `${{ }}`",
        ));
    }
    if host.contains('@') {
        return Some((
            "an address cannot hold a name and a password",
            "send an `authorization` header",
        ));
    }
    if host.is_empty() || rest.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Some(("this is not an address", "write https://host/path"));
    }
    None
}
