//! PostgreSQL's `numeric`, from its binary form to text.
//!
//! A head of four 16-bit numbers (digit groups, weight of the first group, sign, digits behind the
//! point), then groups of four decimal digits each, the most significant first.

use super::Failure;

const NEGATIVE: u16 = 0x4000;
const NOT_A_NUMBER: u16 = 0xC000;
const INFINITE: u16 = 0xD000;
const MINUS_INFINITE: u16 = 0xF000;

/// The number as PostgreSQL would write it.
pub(super) fn to_text(raw: &[u8]) -> Result<String, Failure> {
    let mut words = raw
        .chunks_exact(2)
        .map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    let mut next = || words.next().ok_or("a numeric that is cut off");
    let (count, weight, sign, scale) = (next()?, next()?, next()?, next()?);
    let weight = i32::from(i16::from_be_bytes(weight.to_be_bytes()));
    match sign {
        NOT_A_NUMBER => return Ok("NaN".to_owned()),
        INFINITE => return Ok("Infinity".to_owned()),
        MINUS_INFINITE => return Ok("-Infinity".to_owned()),
        _ => {}
    }
    let groups = (0..count)
        .map(|_| next())
        .collect::<Result<Vec<u16>, _>>()?;
    let group = |place: i32| {
        let index = usize::try_from(weight - place).ok();
        index
            .and_then(|index| groups.get(index))
            .copied()
            .unwrap_or(0)
    };
    let whole: String = (0..=weight.max(0))
        .rev()
        .map(|place| format!("{:04}", group(place)))
        .collect();
    let whole = whole.trim_start_matches('0');
    let mut text = String::from(if sign == NEGATIVE { "-" } else { "" });
    text.push_str(if whole.is_empty() { "0" } else { whole });
    if scale > 0 {
        let scale = usize::from(scale);
        let places = i32::try_from(scale.div_ceil(4))?;
        let part: String = (1..=places)
            .map(|place| format!("{:04}", group(-place)))
            .collect();
        text.push('.');
        text.push_str(&part[..scale]);
    }
    Ok(text)
}
