//! Gates, lowered: `overlap` and `limit`.

use semel_model::gate::{GatePolicy, Rate};

use crate::release::{Limit, Overlap};
use crate::tree::Record;

pub(super) fn overlap(flow: &Record) -> Option<Overlap> {
    let record = flow.map("overlap")?;
    let policy = match record.word("policy")? {
        "skip" => GatePolicy::Skip,
        "join" => GatePolicy::Join,
        "replace" => GatePolicy::Replace,
        _ => GatePolicy::Queue,
    };
    Some(Overlap {
        key: record.expr("key").map(|placed| placed.expr.clone()),
        policy,
    })
}

pub(super) fn limit(flow: &Record) -> Option<Limit> {
    let record = flow.map("limit")?;
    let count = |name: &str| {
        let number = record.whole(name)?;
        u32::try_from(number).ok()
    };
    let rate = count("rate").zip(record.span_of("per"));
    let priority = record.whole("priority").unwrap_or_default();
    Some(Limit {
        key: record.expr("key").map(|placed| placed.expr.clone()),
        concurrency: count("concurrency"),
        rate: rate.map(|(most, per)| Rate { most, per }),
        debounce: record.span_of("debounce"),
        priority: i8::try_from(priority).unwrap_or_default(),
    })
}
