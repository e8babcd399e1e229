//! Forms: each act is one, with a reason where the API asks for it, and a key that makes a second click
//! the same act.

use semel_model::Right;

use super::markup::{Markup, assembled, escape};
use super::visit::Visit;
use crate::error::ApiError;

/// The most characters of a reason.
const REASON_CHARS_MAX: usize = semel_store::audit::REASON_CHARS_MAX;

/// An act that a page offers.
pub(super) struct Offer {
    /// Where the form goes.
    pub(super) action: String,
    /// The right that it needs.
    pub(super) right: Right,
    /// What the form asks for.
    pub(super) fields: Vec<Markup>,
    /// The buttons.
    pub(super) buttons: Vec<Button>,
}

/// A button of a form.
pub(super) struct Button {
    /// What it says.
    pub(super) label: &'static str,
    /// How it looks: `danger`, `plain`, or nothing.
    pub(super) class: &'static str,
    /// What it sends as `decision`.
    pub(super) decision: &'static str,
}

/// A form. Who lacks the right sees it switched off, with the right that is missing.
pub(super) fn form(visit: &Visit, offer: Offer) -> Result<Markup, ApiError> {
    let missing = visit.lacks(offer.right);
    let disabled = if missing.is_some() { " disabled" } else { "" };
    let buttons: String = offer
        .buttons
        .iter()
        .map(|button| {
            let Button {
                label,
                class,
                decision,
            } = button;
            format!("<button type=\"submit\" class=\"{class}\" name=\"decision\" value=\"{decision}\"{disabled}>{label}</button>")
        })
        .collect();
    let key = match visit.key_of_unsure(&offer.action) {
        Some(key) => key,
        None => mint_key()?,
    };
    let note = missing.map(|missing| Markup::text(&missing).within("p", "missing"));
    Ok(assembled(format!(
        "<form action=\"{}\" method=\"post\"><input type=\"hidden\" name=\"form\" value=\"{}\">\
         <input type=\"hidden\" name=\"key\" value=\"{}\"><fieldset{disabled}>{}</fieldset>\
         <div class=\"buttons\">{buttons}</div>{}</form>",
        escape(&offer.action),
        visit.signed_in.form_token,
        escape(&key),
        Markup::join(offer.fields),
        note.unwrap_or_default(),
    )))
}

/// A form with one button.
pub(super) fn offer(
    visit: &Visit,
    (action, right): (String, Right),
    fields: Vec<Markup>,
    (label, class): (&'static str, &'static str),
) -> Result<Markup, ApiError> {
    let decision = "yes";
    let buttons = vec![Button {
        label,
        class,
        decision,
    }];
    let offer = Offer {
        action,
        right,
        fields,
        buttons,
    };
    form(visit, offer)
}

/// A key of its own for each form that is shown.
fn mint_key() -> Result<String, ApiError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|_| ApiError::internal("the system gives no randomness"))?;
    Ok(format!("console-{}", hex::encode(bytes)))
}

/// Asks why, for the audit record.
pub(super) fn reason(id: &str, value: &str) -> Markup {
    assembled(format!(
        "<div class=\"field\"><label for=\"{id}-reason\">Reason, for the audit record</label>\
         <textarea id=\"{id}-reason\" name=\"reason\" required maxlength=\"{REASON_CHARS_MAX}\">{}</textarea></div>",
        escape(value)
    ))
}

/// Asks for a line of text.
pub(super) fn line(name: &'static str, label: &str, value: &str, help: &str) -> Markup {
    line_of((name, name), label, value, help)
}

/// Asks for a line of text, where a page asks for several of this name.
pub(super) fn line_of(
    (id, name): (&str, &'static str),
    label: &str,
    value: &str,
    help: &str,
) -> Markup {
    let id = escape(id);
    assembled(format!(
        "<div class=\"field\"><label for=\"{id}\">{}</label>\
         <input id=\"{id}\" name=\"{name}\" type=\"text\" autocomplete=\"off\" value=\"{}\"><p class=\"help\">{}</p></div>",
        escape(label),
        escape(value),
        Markup::text(help)
    ))
}

/// Asks for lines of text.
pub(super) fn lines(name: &'static str, label: &str, value: &str, help: &str) -> Markup {
    assembled(format!(
        "<div class=\"field\"><label for=\"{name}\">{}</label>\
         <textarea class=\"code\" id=\"{name}\" name=\"{name}\" spellcheck=\"false\">{}</textarea><p class=\"help\">{}</p></div>",
        escape(label),
        escape(value),
        Markup::text(help)
    ))
}

/// Asks for one of several answers.
pub(super) fn choice(
    name: &'static str,
    legend: &'static str,
    chosen: &str,
    options: &[(&'static str, &'static str)],
) -> Markup {
    let options: String = options
        .iter()
        .map(|(value, label)| {
            let checked = if *value == chosen { " checked" } else { "" };
            format!("<label class=\"choice\"><input type=\"radio\" name=\"{name}\" value=\"{value}\" required{checked}> <span>{label}</span></label>")
        })
        .collect();
    assembled(format!(
        "<fieldset><legend>{legend}</legend>{options}</fieldset>"
    ))
}

/// Asks for a yes.
pub(super) fn check(name: &'static str, label: &'static str) -> Markup {
    assembled(format!(
        "<label class=\"choice\"><input type=\"checkbox\" name=\"{name}\" value=\"yes\"> <span>{label}</span></label>"
    ))
}

/// Asks for one of several words.
pub(super) fn select(
    name: &'static str,
    label: &str,
    chosen: &str,
    options: &[(&str, &str)],
) -> Markup {
    let options: String = options
        .iter()
        .map(|(value, label)| {
            let selected = if *value == chosen { " selected" } else { "" };
            let (value, label) = (escape(value), escape(label));
            format!("<option value=\"{value}\"{selected}>{label}</option>")
        })
        .collect();
    assembled(format!(
        "<div class=\"field\"><label for=\"{name}\">{}</label><select id=\"{name}\" name=\"{name}\">{options}</select></div>",
        escape(label)
    ))
}

/// A form that asks for a page, and changes nothing. Who lacks the right that the page needs sees it
/// switched off.
pub(super) fn ask_page(
    visit: &Visit,
    (action, right): (String, Right),
    fields: Vec<Markup>,
    label: &'static str,
) -> Markup {
    let missing = visit.lacks(right);
    let disabled = if missing.is_some() { " disabled" } else { "" };
    let note = missing.map(|missing| Markup::text(&missing).within("p", "missing"));
    assembled(format!(
        "<form action=\"{}\" method=\"get\"><fieldset{disabled}>{}</fieldset>\
         <div class=\"buttons\"><button type=\"submit\"{disabled}>{label}</button></div>{}</form>",
        escape(&action),
        Markup::join(fields),
        note.unwrap_or_default()
    ))
}

/// A value that the form sends back as it is.
pub(super) fn carried(name: &'static str, value: &str) -> Markup {
    let value = escape(value);
    assembled(format!(
        "<input type=\"hidden\" name=\"{name}\" value=\"{value}\">"
    ))
}

/// Something that opens on demand.
pub(super) fn folded(summary: &'static str, is_open: bool, content: &Markup) -> Markup {
    let open = if is_open { " open" } else { "" };
    assembled(format!(
        "<details{open}><summary>{summary}</summary><div>{content}</div></details>"
    ))
}

/// A part of a page, with its heading.
pub(super) fn section(id: &str, heading: &'static str, content: &Markup) -> Markup {
    let id = escape(id);
    assembled(format!(
        "<section id=\"{id}\" aria-labelledby=\"{id}-heading\"><h2 id=\"{id}-heading\">{heading}</h2>{content}</section>"
    ))
}
