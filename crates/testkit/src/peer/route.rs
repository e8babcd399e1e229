//! Reading a path: which ways of behaving are stacked before which way of acting.

use std::time::Duration;

/// How a request is acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Keyed,
    Strict,
    Plain,
    Put,
    Items,
    /// A list of so many items.
    List(u32),
    /// Orders of a shop, in pages.
    Shop(Shop),
    /// Empty pages without end, or in a circle of so many.
    Endless(u32),
}

/// The orders of a shop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shop {
    /// How many are recent.
    pub(super) recent: u32,
    /// How many are two days older.
    pub(super) old: u32,
    /// The second, since 1970, that their ages count from.
    pub(super) now: u32,
}

/// Everything that a path asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) mode: Mode,
    pub(super) slow: Duration,
    /// How much it works before it looks at a key and acts.
    pub(super) busy: Duration,
    /// How much later it acts, long after it closed the connection.
    pub(super) late: Duration,
    /// How much it waits between the pieces of its answer.
    pub(super) drip: Duration,
    /// How long the identity is that it answers with.
    pub(super) id_chars: usize,
    pub(super) hang: bool,
    pub(super) hold: bool,
    pub(super) status: Option<u16>,
    pub(super) fail_first: u32,
}

impl Route {
    /// Reads a path. What it does not know is plain.
    pub(super) fn of(path: &str) -> Self {
        let mut route = Self {
            mode: Mode::Plain,
            slow: Duration::ZERO,
            busy: Duration::ZERO,
            late: Duration::ZERO,
            drip: Duration::ZERO,
            id_chars: 0,
            hang: false,
            hold: false,
            status: None,
            fail_first: 0,
        };
        let mut segments = path.split('/').skip(1);
        while let Some(segment) = segments.next() {
            match segment {
                "slow" => route.slow = Duration::from_millis(number(segments.next()).into()),
                "busy" => route.busy = Duration::from_millis(number(segments.next()).into()),
                "late" => route.late = Duration::from_millis(number(segments.next()).into()),
                "drip" => route.drip = Duration::from_millis(number(segments.next()).into()),
                "long-id" => route.id_chars = number(segments.next()) as usize,
                "hang" => route.hang = true,
                "hold" => route.hold = true,
                "status" => route.status = u16::try_from(number(segments.next())).ok(),
                "fail-first" => route.fail_first = number(segments.next()),
                "keyed" => {
                    return Self {
                        mode: Mode::Keyed,
                        ..route
                    };
                }
                "strict" => {
                    return Self {
                        mode: Mode::Strict,
                        ..route
                    };
                }
                "put" => {
                    return Self {
                        mode: Mode::Put,
                        ..route
                    };
                }
                "list" => {
                    let count = number(segments.next());
                    return Self {
                        mode: Mode::List(count),
                        ..route
                    };
                }
                "shop" => {
                    let mut next = || number(segments.next());
                    let (recent, old, now) = (next(), next(), next());
                    return Self {
                        mode: Mode::Shop(Shop { recent, old, now }),
                        ..route
                    };
                }
                "endless" => {
                    let circle = number(segments.next());
                    return Self {
                        mode: Mode::Endless(circle),
                        ..route
                    };
                }
                "items" => {
                    return Self {
                        mode: Mode::Items,
                        ..route
                    };
                }
                _ => return route,
            }
        }
        route
    }
}

fn number(segment: Option<&str>) -> u32 {
    segment
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

/// The value of a name in a query, with its escapes undone.
pub(super) fn query_value(query: &str, name: &str) -> Option<String> {
    pairs(query)
        .find(|(found, _)| found == name)
        .map(|(_, value)| value)
}

/// All names and values of a query.
pub(super) fn pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (unescape(name), unescape(value))
        })
}

fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = match (first, tail) {
            (b'%', [high, low, ..]) => hex::decode([*high, *low]).ok(),
            _ => None,
        };
        match (escaped, first) {
            (Some(byte), _) => {
                bytes.extend(byte);
                rest = &tail[2..];
                continue;
            }
            (None, b'+') => bytes.push(b' '),
            (None, other) => bytes.push(*other),
        }
        rest = tail;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_of_behaving_stack_before_a_way_of_acting() {
        let route = Route::of("/slow/50/busy/7/status/503/fail-first/2/keyed/status/9");

        assert_eq!(route.mode, Mode::Keyed);
        assert_eq!(route.slow, Duration::from_millis(50));
        assert_eq!(route.busy, Duration::from_millis(7));
        assert_eq!((route.status, route.fail_first), (Some(503), 2));
    }

    #[test]
    fn a_query_is_read_with_its_escapes_undone() {
        assert_eq!(
            query_value("a=1&key=x%2Fy+z%", "key").as_deref(),
            Some("x/y z%")
        );
        assert_eq!(query_value("refuse", "refuse").as_deref(), Some(""));
        assert_eq!(query_value("", "refuse"), None);
    }
}
