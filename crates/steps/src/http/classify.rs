//! Why there is no answer, read from the HTTP client's errors.

use std::error::Error;
use std::io;

use rustls::AlertDescription as Alert;
use semel_model::Fault;

use super::resolve::AddressRefused;

/// The error and its causes, without the address: it may carry secrets in its query.
pub(super) fn describe(error: &reqwest::Error) -> String {
    let causes: Vec<String> = causes(error).map(ToString::to_string).collect();
    match causes.join(": ").as_str() {
        "" if error.is_timeout() => "no answer in time".to_owned(),
        "" => "the connection broke".to_owned(),
        text => text.to_owned(),
    }
}

/// The refusal of an address among an error's causes.
pub(super) fn find_refusal(error: &reqwest::Error) -> Option<&Fault> {
    causes(error).find_map(|cause| cause.downcast_ref().map(|AddressRefused(fault)| fault))
}

/// Whether the destination refused who we are while the connection was being made.
///
/// In TLS 1.3 a client has sent its first request by the time a server looks at its certificate.
/// A server that refuses it there has not read the request, and says so with one of these alerts,
/// which have no place after a handshake.
pub(super) fn is_stranger(error: &reqwest::Error) -> bool {
    let alert = |cause: &(dyn Error + 'static)| {
        let inner = cause
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        let inner = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let rustls::Error::AlertReceived(alert) = inner.or_else(|| cause.downcast_ref())? else {
            return None;
        };
        Some(*alert)
    };
    let refusals = [
        Alert::CertificateRequired,
        Alert::BadCertificate,
        Alert::UnsupportedCertificate,
        Alert::CertificateRevoked,
        Alert::CertificateExpired,
        Alert::CertificateUnknown,
        Alert::UnknownCA,
        Alert::HandshakeFailure,
    ];
    causes(error)
        .filter_map(alert)
        .any(|alert| refusals.contains(&alert))
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(Error::source(error), |error| Error::source(*error))
}
