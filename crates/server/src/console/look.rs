//! How a person wants pages to look: light or dark, and times in which zone.
//!
//! Both are cookies, so that the first byte of a page is already right and nothing flashes; they carry no
//! secret. Without script a form changes them.

use axum::http::{HeaderMap, HeaderValue};
use jiff::tz::TimeZone;
use semel_api::Code;

use crate::auth::signed_in::read_cookie;
use crate::auth::site::Site;
use crate::error::ApiError;

const THEME: &str = "semel_theme";
const ZONE: &str = "semel_zone";

/// How long a browser keeps a choice, in seconds: a year.
const KEPT_SECS: u32 = 31_536_000;

/// Light or dark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Theme {
    /// As the system says.
    #[default]
    System,
    Light,
    Dark,
}

impl Theme {
    fn read(word: &str) -> Option<Self> {
        match word {
            "system" => Some(Self::System),
            "light" => Some(Self::Light),
            "dark" => Some(Self::Dark),
            _ => None,
        }
    }

    /// The word for it.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

/// What a person chose.
#[derive(Clone, Debug)]
pub(super) struct Look {
    /// Light or dark.
    pub(super) theme: Theme,
    /// The zone that times are shown in.
    pub(super) zone: TimeZone,
}

impl Look {
    /// What the cookies of a request say.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let theme = read_cookie(headers, THEME).and_then(Theme::read);
        let zone = read_cookie(headers, ZONE).and_then(find_zone);
        Self {
            theme: theme.unwrap_or_default(),
            zone: zone.unwrap_or(TimeZone::UTC),
        }
    }

    /// The name of the zone; empty for UTC.
    pub(super) fn zone_name(&self) -> &str {
        match self.zone.iana_name() {
            Some("UTC") | None => "",
            Some(name) => name,
        }
    }
}

/// A zone by its name. Only what can stand in a cookie is one.
fn find_zone(name: &str) -> Option<TimeZone> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_+-".contains(&byte);
    let fits = !name.is_empty() && name.len() <= 64 && name.bytes().all(plain);
    fits.then(|| TimeZone::get(name).ok()).flatten()
}

/// The cookies that keep what was chosen in a form.
pub(super) fn choose(
    site: &Site,
    theme: &str,
    (time, zone): (&str, &str),
) -> Result<[HeaderValue; 2], ApiError> {
    let invalid = |detail: &str| ApiError::new(Code::BodyInvalid, detail);
    let theme = Theme::read(theme).ok_or_else(|| invalid("choose a theme"))?;
    let zone = match time {
        "utc" => TimeZone::UTC,
        "local" => find_zone(zone).ok_or_else(|| {
            invalid("there is no such time zone; name yours, such as Europe/Berlin")
        })?,
        _ => return Err(invalid("choose how times are shown")),
    };
    let theme = match theme {
        Theme::System => "",
        Theme::Light | Theme::Dark => theme.as_str(),
    };
    let zone = zone.iana_name().filter(|name| *name != "UTC");
    Ok([
        cookie(site, THEME, theme)?,
        cookie(site, ZONE, zone.unwrap_or(""))?,
    ])
}

/// A choice for a browser to keep; an empty one is forgotten.
fn cookie(site: &Site, name: &str, value: &str) -> Result<HeaderValue, ApiError> {
    let seconds = if value.is_empty() { 0 } else { KEPT_SECS };
    let secure = if site.is_secure() { "; Secure" } else { "" };
    let text =
        format!("{name}={value}; Path=/console; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    let cookie = HeaderValue::try_from(text);
    cookie.map_err(|_| ApiError::internal("a cookie that is no header"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_that_is_none_is_left_out() {
        let mut headers = HeaderMap::new();
        let cookie = "semel_theme=dark; semel_zone=Europe/Berlin";
        headers.insert("cookie", cookie.parse().unwrap());
        let chosen = Look::of(&headers);
        headers.insert(
            "cookie",
            "semel_theme=\"><b>; semel_zone=../../etc".parse().unwrap(),
        );
        let none = Look::of(&headers);

        assert_eq!(
            (chosen.theme, chosen.zone_name()),
            (Theme::Dark, "Europe/Berlin")
        );
        assert_eq!((none.theme, none.zone_name()), (Theme::System, ""));
        assert!(find_zone("").is_none() && find_zone("Nowhere/Atall").is_none());
    }
}
