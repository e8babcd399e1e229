//! TLS towards destinations: what the system trusts, and what the owner of a connection trusts besides.

use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::{ClientConfig, ConfigBuilder};
use rustls_platform_verifier::Verifier;

/// The certificates of a PEM text, of which there is one at least.
pub(crate) fn read_certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    let found = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    match found.is_empty() {
        true => Err(pem::Error::NoItemsFound),
        false => Ok(found),
    }
}

/// Everything of a configuration but the client's own certificate.
pub(crate) fn trusting(
    extra: Vec<CertificateDer<'static>>,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Verifier::new_with_extra_roots(extra, provider.clone())?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    Ok(config)
}
