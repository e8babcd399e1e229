//! What is signed: the bytes that a scheme puts together from a request.

use std::borrow::Cow;
use std::collections::BTreeSet;

use semel_flow::release::{Signature, SignedPart};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use url::form_urlencoded;

use super::SignedRequest;

/// The method of every request to a hook.
const METHOD: &str = "POST";

/// The query parameter with the digest of a body that is no form.
const BODY_DIGEST: &str = "bodySHA256";

/// The bytes that are signed, piece by piece.
pub(super) struct Message<'a> {
    /// The pieces, in order.
    pub(super) pieces: Vec<Cow<'a, [u8]>>,
    /// Whether every piece was there.
    pub(super) is_whole: bool,
}

impl<'a> Message<'a> {
    /// Puts together what a request would have been signed as.
    pub(super) fn of(
        signature: &'a Signature,
        call: &SignedRequest<'a>,
        time: Option<&'a str>,
    ) -> Self {
        let mut message = Self {
            pieces: Vec::with_capacity(signature.signed.len()),
            is_whole: true,
        };
        let mut behind_address = false;
        for part in &signature.signed {
            let piece = piece(part, call, time);
            message.is_whole &= piece.is_some();
            // Nothing marks the end of an address. A list or a map of JSON alone begins at one place of
            // the text, because the bracket that ends it is that of its beginning.
            let is_body = matches!(part, SignedPart::Body);
            message.is_whole &= !(is_body && behind_address) || call.is_list_or_map();
            behind_address = matches!(part, SignedPart::Url | SignedPart::UrlDecoded);
            message.pieces.extend(piece);
        }
        message
    }

    /// The pieces as one.
    pub(super) fn joined(&self) -> Vec<u8> {
        self.pieces.concat()
    }
}

fn piece<'a>(
    part: &'a SignedPart,
    call: &SignedRequest<'a>,
    time: Option<&'a str>,
) -> Option<Cow<'a, [u8]>> {
    let text = |text: &'a str| Cow::Borrowed(text.as_bytes());
    match part {
        SignedPart::Text(fixed) => Some(text(fixed)),
        SignedPart::Body => Some(Cow::Borrowed(call.body)),
        SignedPart::Sent => time.map(text),
        // With a dot in it, the end of the value could pass for the piece behind it.
        SignedPart::Header(name) => {
            let value = call.header(name);
            value.filter(|value| !value.contains('.')).map(text)
        }
        SignedPart::Method => Some(text(METHOD)),
        SignedPart::Url => Some(text(call.url)),
        SignedPart::UrlDecoded => Some(Cow::Owned(decoded(call.url))),
        SignedPart::FormSorted if call.is_form() => Some(Cow::Owned(sorted_form(call.body))),
        SignedPart::FormSorted => has_digest(call).then_some(Cow::Borrowed(&[])),
    }
}

/// The fields of a form by name and value, each once, with nothing between them.
fn sorted_form(body: &[u8]) -> Vec<u8> {
    let fields: BTreeSet<_> = form_urlencoded::parse(body).collect();
    let mut text = Vec::with_capacity(body.len());
    for (name, value) in fields {
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(value.as_bytes());
    }
    text
}

/// Whether the query, which is signed with the address, names the body by its digest.
fn has_digest(call: &SignedRequest<'_>) -> bool {
    let mut digests = call.query.iter().filter(|(name, _)| name == BODY_DIGEST);
    let (Some((_, digest)), None) = (digests.next(), digests.next()) else {
        return false;
    };
    let given = hex::decode(digest).unwrap_or_default();
    Sha256::digest(call.body).as_slice().ct_eq(&given).into()
}

/// A text with percent-encoding undone. What is no escape stays as it is.
fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let mut byte = [0];
        let digits = behind.get(..2).unwrap_or_default();
        let is_escape = *first == b'%' && hex::decode_to_slice(digits, &mut byte).is_ok();
        bytes.push(if is_escape { byte[0] } else { *first });
        rest = if is_escape { &behind[2..] } else { behind };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoding_is_undone_and_other_percent_signs_stay() {
        assert_eq!(decoded("/a%40b%2"), b"/a@b%2");
        assert_eq!(decoded("100%"), b"100%");
        assert_eq!(decoded("%zz%C3%A9"), "%zzé".as_bytes());
    }

    #[test]
    fn a_form_is_sorted_by_name_and_value() {
        assert_eq!(sorted_form(b"b=2&a=x+y&a=%2B1&b=2"), b"a+1ax yb2");
    }
}
