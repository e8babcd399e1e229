//! The functions of the language. Each is pure and pays for what it looks at and what it makes.

mod digest;
mod text;
mod time;

use super::error::EvalErrorKind;
use super::fuel::Fuel;
use super::value::{Text, Val};

macro_rules! builtins {
    ($($name:literal $variant:ident $takes:pat => $usage:literal;)*) => {
        /// A function of the language.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Builtin { $($variant,)* }

        impl Builtin {
            const ALL: &[Self] = &[$(Self::$variant,)*];

            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// How it is called, for a fix.
            pub(crate) const fn usage(self) -> &'static str {
                match self { $(Self::$variant => $usage,)* }
            }

            /// Whether it can be called with that many arguments, receiver included.
            pub(crate) const fn takes(self, count: usize) -> bool {
                match self { $(Self::$variant => matches!(count, $takes),)* }
            }
        }
    };
}

builtins! {
    "size" Size 1 => "size(value)";
    "string" String 1 => "string(value)";
    "int" Int 1 => "int(value)";
    "double" Double 1 => "double(value)";
    "bool" Bool 1 => "bool(value)";
    "type" Type 1 => "type(value)";
    "startsWith" StartsWith 2 => "text.startsWith(prefix)";
    "endsWith" EndsWith 2 => "text.endsWith(suffix)";
    "contains" Contains 2 => "text.contains(part)";
    "lower" Lower 1 => "lower(text)";
    "upper" Upper 1 => "upper(text)";
    "trim" Trim 1 => "trim(text)";
    "split" Split 2 => "text.split(separator)";
    "join" Join 1 | 2 => "list.join(separator)";
    "replace" Replace 3 => "text.replace(from, to)";
    "sha256" Sha256 1 => "sha256(text)";
    "hmac_sha256" HmacSha256 2 => "hmac_sha256(text, key)";
    "date" Date 1 => "date(time)";
    "epoch" Epoch 1 => "epoch(time)";
    "rfc3339" Rfc3339 1 => "rfc3339(seconds)";
    "json" Json 1 => "json(value)";
    "parse_json" ParseJson 1 => "parse_json(text)";
    "fingerprint" Fingerprint 1 | 2 => "fingerprint(value, [\"ignored.path\"])";
}

/// Forms that read like functions and are lowered into nodes of their own.
const FORMS: [&str; 8] = [
    "has",
    "default",
    "matches",
    "all",
    "exists",
    "exists_one",
    "map",
    "filter",
];

impl Builtin {
    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|builtin| builtin.name() == name)
    }

    /// Every name that can be called, for a fix.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        Self::ALL.iter().map(|builtin| builtin.name()).chain(FORMS)
    }
}

impl Builtin {
    /// Whether its first argument must be text.
    pub(crate) const fn takes_text(self) -> bool {
        matches!(
            self,
            Self::StartsWith
                | Self::EndsWith
                | Self::Contains
                | Self::Lower
                | Self::Upper
                | Self::Trim
                | Self::Split
                | Self::Replace
                | Self::Sha256
                | Self::HmacSha256
                | Self::ParseJson
                | Self::Date
                | Self::Epoch
        )
    }
}

/// Calls a function; the number of its arguments is checked when it is compiled.
pub(crate) fn call<'a>(
    fuel: &mut Fuel,
    builtin: Builtin,
    arguments: &[Val<'a>],
) -> Result<Val<'a>, EvalErrorKind> {
    match (builtin, arguments) {
        (Builtin::Size, [value]) => size(fuel, value),
        (Builtin::String, [value]) => string(fuel, value),
        (Builtin::Int, [value]) => int(value),
        (Builtin::Double, [value]) => double(value),
        (Builtin::Bool, [value]) => bool(value),
        (Builtin::Type, [value]) => Ok(Val::Text(Text::Lent(value.type_name()))),
        (Builtin::Json, [value]) => digest::json(fuel, value),
        (Builtin::ParseJson, [value]) => digest::parse_json(fuel, value),
        (Builtin::Sha256, [value]) => digest::sha256(fuel, value),
        (Builtin::HmacSha256, [value, key]) => digest::hmac_sha256(fuel, value, key),
        (Builtin::Date | Builtin::Epoch | Builtin::Rfc3339, [value]) => {
            time::call(fuel, builtin, value)
        }
        (Builtin::Fingerprint, [value]) => digest::fingerprint(fuel, value, None),
        (Builtin::Fingerprint, [value, ignored]) => digest::fingerprint(fuel, value, Some(ignored)),
        _ => text::call(fuel, builtin, arguments),
    }
}

/// The text of an argument, or what is wrong with it.
fn text_of<'v>(builtin: Builtin, value: &'v Val<'_>) -> Result<&'v str, EvalErrorKind> {
    let Val::Text(text) = value else {
        return Err(wrong(builtin, "a string", value));
    };
    Ok(text.as_str())
}

fn wrong(builtin: Builtin, expected: &'static str, found: &Val<'_>) -> EvalErrorKind {
    EvalErrorKind::Type {
        operation: builtin.name(),
        expected,
        found: found.type_name(),
    }
}

fn unreadable(kind: &str, text: &str) -> EvalErrorKind {
    let shown: String = text.chars().take(40).collect();
    EvalErrorKind::Invalid(format!("`{shown}` is not {kind}"))
}

fn made(fuel: &mut Fuel, text: String) -> Result<Val<'static>, EvalErrorKind> {
    fuel.make(text.len())?;
    Ok(Val::Text(Text::Made(text.into())))
}

fn size<'a>(fuel: &mut Fuel, value: &Val<'_>) -> Result<Val<'a>, EvalErrorKind> {
    let size = match value {
        Val::Text(text) => {
            fuel.burn_for(text.as_str().len(), 256)?;
            text.as_str().chars().count()
        }
        Val::List(items) => items.len(),
        Val::Map(fields) => fields.len(),
        Val::Null | Val::Bool(_) | Val::Int(_) | Val::Double(_) => {
            return Err(wrong(Builtin::Size, "a string, a list or a map", value));
        }
    };
    i64::try_from(size)
        .map(Val::Int)
        .map_err(|_| EvalErrorKind::Overflow("size"))
}

fn string<'a>(fuel: &mut Fuel, value: &Val<'a>) -> Result<Val<'a>, EvalErrorKind> {
    match value {
        Val::Text(_) => Ok(value.clone()),
        Val::Bool(value) => Ok(Val::Text(Text::Lent(if *value { "true" } else { "false" }))),
        Val::Int(value) => made(fuel, value.to_string()),
        Val::Double(_) => digest::json(fuel, value),
        Val::Null | Val::List(_) | Val::Map(_) => Err(wrong(
            Builtin::String,
            "a string, a number or a bool",
            value,
        )),
    }
}

fn int<'a>(value: &Val<'_>) -> Result<Val<'a>, EvalErrorKind> {
    match value {
        Val::Int(value) => Ok(Val::Int(*value)),
        Val::Double(value) if (-9.2e18..9.2e18).contains(value) => Ok(Val::Int(*value as i64)),
        Val::Double(_) => Err(EvalErrorKind::Overflow("int")),
        Val::Text(text) => {
            let text = text.as_str();
            text.parse()
                .map(Val::Int)
                .map_err(|_| unreadable("a whole number", text))
        }
        Val::Null | Val::Bool(_) | Val::List(_) | Val::Map(_) => {
            Err(wrong(Builtin::Int, "a number or a string", value))
        }
    }
}

fn double<'a>(value: &Val<'_>) -> Result<Val<'a>, EvalErrorKind> {
    match value {
        Val::Int(value) => Ok(Val::Double(*value as f64)),
        Val::Double(value) => Ok(Val::Double(*value)),
        Val::Text(text) => {
            let text = text.as_str();
            let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
            number
                .map(Val::Double)
                .ok_or_else(|| unreadable("a number", text))
        }
        Val::Null | Val::Bool(_) | Val::List(_) | Val::Map(_) => {
            Err(wrong(Builtin::Double, "a number or a string", value))
        }
    }
}

fn bool<'a>(value: &Val<'_>) -> Result<Val<'a>, EvalErrorKind> {
    match value {
        Val::Bool(value) => Ok(Val::Bool(*value)),
        Val::Text(text) => match text.as_str() {
            "true" => Ok(Val::Bool(true)),
            "false" => Ok(Val::Bool(false)),
            other => Err(unreadable("`true` or `false`", other)),
        },
        Val::Null | Val::Int(_) | Val::Double(_) | Val::List(_) | Val::Map(_) => {
            Err(wrong(Builtin::Bool, "a bool or a string", value))
        }
    }
}
