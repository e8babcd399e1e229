//! What names say about values. Only names that can hardly mean anything else are listed.

use super::Taint;

const CLOCK: [&str; 22] = [
    "sentat",
    "sendtime",
    "senttime",
    "timesent",
    "timestamp",
    "receivedat",
    "receivedtime",
    "deliveredat",
    "deliverytime",
    "requesttime",
    "requestedat",
    "processedat",
    "fetchedat",
    "generatedat",
    "queriedat",
    "currenttime",
    "now",
    "today",
    "servertime",
    "systemtime",
    "responsetime",
    "elapsed",
];
const RANDOM: [&str; 9] = [
    "nonce",
    "random",
    "rand",
    "salt",
    "traceid",
    "spanid",
    "traceparent",
    "jitter",
    "randomid",
];
const ATTEMPT: [&str; 19] = [
    "attempt",
    "attempts",
    "attemptnumber",
    "attemptcount",
    "attemptno",
    "attemptid",
    "retry",
    "retries",
    "retrycount",
    "retrynumber",
    "retrynum",
    "deliveryattempt",
    "deliverycount",
    "redelivered",
    "redelivery",
    "isredelivery",
    "trynumber",
    "retryattempt",
    "deliveryattempts",
];
/// Words for a person or a company; with `id`, `email` and the like behind them, or alone.
const PARTY: [&str; 28] = [
    "customer",
    "account",
    "user",
    "client",
    "member",
    "contact",
    "person",
    "patient",
    "tenant",
    "organization",
    "organisation",
    "org",
    "company",
    "merchant",
    "vendor",
    "supplier",
    "shop",
    "store",
    "team",
    "workspace",
    "owner",
    "sender",
    "recipient",
    "buyer",
    "seller",
    "employee",
    "subscriber",
    "lead",
];
const PARTY_ALONE: [&str; 8] = [
    "email",
    "emailaddress",
    "phone",
    "phonenumber",
    "username",
    "login",
    "mobile",
    "mail",
];
const PARTY_ENDS: [&str; 8] = [
    "id", "email", "name", "number", "uuid", "uid", "phone", "key",
];

const RANDOM_HEADERS: [&str; 10] = [
    "x-request-id",
    "x-correlation-id",
    "traceparent",
    "tracestate",
    "x-amzn-trace-id",
    "x-amz-cf-id",
    "cf-ray",
    "x-cloud-trace-context",
    "x-b3-traceid",
    "x-b3-spanid",
];

/// What a header's name says.
pub(super) fn header(name: &str) -> Taint {
    let name = name.to_ascii_lowercase();
    if name == "date" || name == "age" || name.ends_with("timestamp") || name == "stripe-signature"
    {
        Taint::Clock
    } else if RANDOM_HEADERS.contains(&name.as_str()) {
        Taint::Random
    } else if ["attempt", "retry", "redelivery"]
        .iter()
        .any(|word| name.contains(word))
    {
        Taint::Attempt
    } else {
        Taint::Header
    }
}

/// What the name of a field says.
pub(super) fn field(name: &str) -> Taint {
    let plain = plain(name);
    let plain = plain.as_str();
    if CLOCK.contains(&plain) {
        Taint::Clock
    } else if RANDOM.contains(&plain) {
        Taint::Random
    } else if ATTEMPT.contains(&plain) {
        Taint::Attempt
    } else if PARTY_ALONE.contains(&plain) || is_party(plain) {
        Taint::Party
    } else {
        Taint::Plain
    }
}

/// What the fields of a path say; `customer.id` is as much a party as `customer_id`.
pub(super) fn fields(fields: &[String]) -> Taint {
    let [.., before, last] = fields else {
        return fields.last().map_or(Taint::Plain, |last| field(last));
    };
    let taint = field(last);
    let ends = PARTY_ENDS.contains(&plain(last).as_str());
    if taint == Taint::Plain && ends && PARTY.contains(&plain(before).as_str()) {
        return Taint::Party;
    }
    taint
}

/// `customer`, `customerid`, `useremail`.
fn is_party(plain: &str) -> bool {
    PARTY.iter().any(|party| {
        plain
            .strip_prefix(party)
            .is_some_and(|rest| rest.is_empty() || PARTY_ENDS.contains(&rest))
    })
}

/// `sent_at`, `sent-at` and `sentAt` are one word.
fn plain(name: &str) -> String {
    name.chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|letter| letter.to_ascii_lowercase())
        .collect()
}
