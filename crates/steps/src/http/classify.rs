//! Why there is no answer, read from the HTTP client's errors.

use std::error::Error;
use std::io;

use rustls::AlertDescription as Alert;
use semel_model::Fault;

use super::client::ExchangeError;
use super::resolve::AddressRefused;

/// The error and its causes. None of them names the address, which may carry secrets in its query.
pub(super) fn describe(error: &ExchangeError) -> String {
    let causes: Vec<String> = causes(error).map(ToString::to_string).collect();
    causes.join(": ")
}

/// The refusal of an address among an error's causes.
pub(super) fn find_refusal(error: &ExchangeError) -> Option<&Fault> {
    causes(error).find_map(|cause| cause.downcast_ref().map(|AddressRefused(fault)| fault))
}

/// Whether the destination refused who we are while the connection was being made.
///
/// In TLS 1.3 a client has sent its first request by the time a server looks at its certificate.
/// A server that refuses it there has not read the request, and says so with one of these alerts,
/// which have no place after a handshake.
pub(super) fn is_stranger(error: &ExchangeError) -> bool {
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

fn causes(error: &ExchangeError) -> impl Iterator<Item = &(dyn Error + 'static)> {
    let first: &(dyn Error + 'static) = error;
    std::iter::successors(Some(first), |error| Error::source(*error))
}
