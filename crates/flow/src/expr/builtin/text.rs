//! Functions over text.

use super::super::error::EvalErrorKind;
use super::super::fuel::Fuel;
use super::super::limits::LIST_LEN_MAX;
use super::super::order::BYTES_PER_STEP;
use super::super::value::{List, Text, Val};
use super::{Builtin, made, text_of, wrong};

pub(super) fn call<'a>(
    fuel: &mut Fuel,
    builtin: Builtin,
    arguments: &[Val<'a>],
) -> Result<Val<'a>, EvalErrorKind> {
    if let (Builtin::Join, [list, rest @ ..]) = (builtin, arguments) {
        return join(fuel, list, rest.first());
    }
    let mut texts = [""; 3];
    for (slot, argument) in texts.iter_mut().zip(arguments) {
        *slot = text_of(builtin, argument)?;
        fuel.burn_for(slot.len(), BYTES_PER_STEP)?;
    }
    let [text, second, third] = texts;
    match builtin {
        Builtin::StartsWith => Ok(Val::Bool(text.starts_with(second))),
        Builtin::EndsWith => Ok(Val::Bool(text.ends_with(second))),
        Builtin::Contains => Ok(Val::Bool(text.contains(second))),
        Builtin::Lower => made(fuel, text.to_lowercase()),
        Builtin::Upper => made(fuel, text.to_uppercase()),
        Builtin::Trim => made(fuel, text.trim().to_owned()),
        Builtin::Split => split(fuel, text, second),
        Builtin::Replace => replace(fuel, text, second, third),
        Builtin::Size
        | Builtin::String
        | Builtin::Int
        | Builtin::Double
        | Builtin::Bool
        | Builtin::Type
        | Builtin::Join
        | Builtin::Sha256
        | Builtin::HmacSha256
        | Builtin::Date
        | Builtin::Epoch
        | Builtin::Rfc3339
        | Builtin::Json
        | Builtin::ParseJson
        | Builtin::Fingerprint => Err(EvalErrorKind::Invalid(format!(
            "`{}` is not called like this",
            builtin.name()
        ))),
    }
}

fn split<'a>(fuel: &mut Fuel, text: &str, separator: &str) -> Result<Val<'a>, EvalErrorKind> {
    if separator.is_empty() {
        return Err(EvalErrorKind::Invalid(
            "`split` needs a separator that is not empty".to_owned(),
        ));
    }
    let mut parts = Vec::new();
    for part in text.split(separator) {
        if parts.len() == LIST_LEN_MAX {
            return Err(EvalErrorKind::Limit("list"));
        }
        fuel.step()?;
        fuel.make(size_of::<Val<'_>>() + part.len())?;
        parts.push(Val::Text(Text::Made(part.into())));
    }
    Ok(Val::List(List::Made(parts.into())))
}

fn join<'a>(
    fuel: &mut Fuel,
    list: &Val<'_>,
    separator: Option<&Val<'_>>,
) -> Result<Val<'a>, EvalErrorKind> {
    let Val::List(items) = list else {
        return Err(wrong(Builtin::Join, "a list", list));
    };
    let separator = separator.map_or(Ok(""), |value| text_of(Builtin::Join, value))?;
    let mut joined = String::new();
    for (index, item) in items.iter().enumerate() {
        let item = item?;
        let item = text_of(Builtin::Join, &item)?;
        let between = if index > 0 { separator } else { "" };
        fuel.burn_for(between.len() + item.len(), 256)?;
        fuel.make(between.len() + item.len())?;
        joined.push_str(between);
        joined.push_str(item);
    }
    Ok(Val::Text(Text::Made(joined.into())))
}

/// Counts before it makes: a short text can ask for a very long one.
fn replace<'a>(
    fuel: &mut Fuel,
    text: &str,
    from: &str,
    to: &str,
) -> Result<Val<'a>, EvalErrorKind> {
    if from.is_empty() {
        return Err(EvalErrorKind::Invalid(
            "`replace` needs a text to look for".to_owned(),
        ));
    }
    let count = text.matches(from).count();
    let len = text.len() + count.saturating_mul(to.len());
    fuel.make(len)?;
    fuel.burn_for(len, BYTES_PER_STEP)?;
    fuel.burn(count / 8)?;
    Ok(Val::Text(Text::Made(text.replace(from, to).into())))
}
