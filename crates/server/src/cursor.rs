//! Cursors: where a page ended, as an opaque text for callers.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use semel_api::Code;
use semel_store::duplicates::DuplicatePosition;
use semel_store::listed::Position;
use uuid::Uuid;

use crate::error::ApiError;

/// Writes down the last item of a page. Times are kept to the microsecond, as the store does.
pub(crate) fn write(at: Timestamp, id: &Uuid) -> String {
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(&at.as_microsecond().to_be_bytes());
    bytes[8..].copy_from_slice(id.as_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Writes down where the next page begins.
pub(crate) fn write_position((at, id): Position) -> String {
    write(at, &id)
}

/// Reads where the page before ended; nothing for the first page.
pub(crate) fn read(text: Option<&str>) -> Result<Option<Position>, ApiError> {
    let Some(text) = text else {
        return Ok(None);
    };
    match decode(text) {
        Some(place) => Ok(Some(place)),
        None => Err(odd()),
    }
}

/// Reads where a list begins: behind the page before, and before a time.
pub(crate) fn read_before(
    text: Option<&str>,
    until: Option<Timestamp>,
) -> Result<Option<Position>, ApiError> {
    let page = read(text)?;
    // The database does not have every year.
    let until = until.map(|until| (until.max(Timestamp::UNIX_EPOCH), Uuid::nil()));
    Ok(match (page, until) {
        (Some(page), Some(until)) => Some(page.min(until)),
        (page, until) => page.or(until),
    })
}

fn decode(text: &str) -> Option<Position> {
    let bytes: [u8; 24] = URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?;
    let (at, id) = bytes.split_at(8);
    let at = i64::from_be_bytes(at.try_into().ok()?);
    Some((read_time(at)?, Uuid::from_slice(id).ok()?))
}

/// Nothing here is older than this, and PostgreSQL does not know all years that we do.
fn read_time(microsecond: i64) -> Option<Timestamp> {
    let at = Timestamp::from_microsecond(microsecond).ok()?;
    (at >= Timestamp::UNIX_EPOCH).then_some(at)
}

/// Writes down the last child run of a page.
pub(crate) fn write_child(step: &str, index: i32) -> String {
    format!("{index}:{step}")
}

/// Reads the step and the place of the child run that a page ended with; nothing for the first page.
pub(crate) fn read_child(text: Option<&str>) -> Result<Option<(String, i32)>, ApiError> {
    let Some(text) = text else {
        return Ok(None);
    };
    let read = text.split_once(':').and_then(|(index, step)| {
        let index = index.parse().ok()?;
        Some((step.to_owned(), index))
    });
    read.map(Some).ok_or_else(odd)
}

/// Writes down the last duplicate of a page.
pub(crate) fn write_duplicate(last: &DuplicatePosition) -> String {
    let mut bytes = last.minute.as_microsecond().to_be_bytes().to_vec();
    bytes.extend(last.subject.as_bytes());
    bytes.extend(last.fingerprint.as_bytes());
    bytes.extend(last.stopped_by.as_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Reads where a page of duplicates ended; nothing for the first page.
pub(crate) fn read_duplicate(text: Option<&str>) -> Result<Option<DuplicatePosition>, ApiError> {
    let Some(text) = text else {
        return Ok(None);
    };
    decode_duplicate(text).map(Some).ok_or_else(odd)
}

fn decode_duplicate(text: &str) -> Option<DuplicatePosition> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (minute, rest) = bytes.split_first_chunk::<8>()?;
    let (subject, rest) = rest.split_first_chunk::<16>()?;
    let (fingerprint, word) = rest.split_first_chunk::<16>()?;
    let word = std::str::from_utf8(word).ok()?;
    let is_word = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    Some(DuplicatePosition {
        minute: read_time(i64::from_be_bytes(*minute))?,
        subject: Uuid::from_bytes(*subject),
        fingerprint: Uuid::from_bytes(*fingerprint),
        stopped_by: is_word.then(|| word.to_owned())?,
    })
}

fn odd() -> ApiError {
    let detail = "`cursor` is not one that this server gave";
    ApiError::new(Code::QueryInvalid, detail)
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
            assert!(read_duplicate(Some(text)).is_err(), "{text}");
        }
        let ancient: Timestamp = "-008000-01-01T00:00:00Z".parse().unwrap();
        assert!(read(Some(&write(ancient, &Uuid::nil()))).is_err());
    }
}
