//! Cookies and the tokens of forms.

use super::*;

#[test]
fn a_cookie_is_read_among_others_by_its_whole_name() {
    let mut headers = HeaderMap::new();
    headers.append(COOKIE, "theme=dark; xsemel_dev=no".parse().unwrap());
    headers.append(COOKIE, "a=b; semel_dev=yes; c=d".parse().unwrap());

    assert_eq!(read_cookie(&headers, "semel_dev"), Some("yes"));
    assert_eq!(read_cookie(&headers, "__Host-semel"), None);
}

#[test]
fn the_token_of_a_form_follows_from_the_cookie_and_is_not_its_digest() {
    let (one, other) = (mint().unwrap(), mint().unwrap());
    let token = |minted: &MintedSecret| form_token(&decode(&minted.text).unwrap());

    assert_eq!(token(&one), token(&one));
    assert_ne!(token(&one), token(&other));
    assert_ne!(token(&one), URL_SAFE_NO_PAD.encode(one.digest));
    assert_eq!(digest(&one.text), Some(one.digest));
    assert_eq!(digest("short"), None);
}
