//! Cursors: where a page ended, as an opaque text for callers.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use semel_api::Code;
use uuid::Uuid;

use crate::error::ApiError;

/// Writes down the last item of a page. Times are kept to the microsecond, as the store does.
pub(crate) fn write(at: Timestamp, id: &Uuid) -> String {
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(&at.as_microsecond().to_be_bytes());
    bytes[8..].copy_from_slice(id.as_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Reads where the page before ended; nothing for the first page.
pub(crate) fn read(text: Option<&str>) -> Result<Option<(Timestamp, Uuid)>, ApiError> {
    let Some(text) = text else {
        return Ok(None);
    };
    match decode(text) {
        Some(place) => Ok(Some(place)),
        None => Err(ApiError::new(
            Code::QueryInvalid,
            "`cursor` is not one that this server gave",
        )),
    }
}

fn decode(text: &str) -> Option<(Timestamp, Uuid)> {
    let bytes: [u8; 24] = URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?;
    let (at, id) = bytes.split_at(8);
    let at = i64::from_be_bytes(at.try_into().ok()?);
    Some((
        Timestamp::from_microsecond(at).ok()?,
        Uuid::from_slice(id).ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_as_it_was_written() {
        let at: Timestamp = "2026-02-03T04:05:06.123456Z".parse().unwrap();
        let id = Uuid::from_u128(7 << 64 | 42);

        let place = read(Some(&write(at, &id))).unwrap();

        assert_eq!(place, Some((at, id)));
    }

    #[test]
    fn no_cursor_is_the_first_page() {
        assert_eq!(read(None).unwrap(), None);
    }

    #[test]
    fn a_made_up_cursor_is_refused() {
        for text in ["", "?", "AAAA", "!!!!"] {
            assert!(read(Some(text)).is_err(), "{text}");
        }
    }
}
