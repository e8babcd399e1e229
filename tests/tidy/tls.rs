//! Certificates are verified everywhere: nothing in the tree switches that off.

use anyhow::Result;

use crate::expect_none;
use crate::tree::texts;

/// What switches verification off, or opens the way to it. Written in halves, because this file is
/// searched as well.
const WAYS: &[&str] = &[
    concat!("danger_accept_", "invalid_certs"),
    concat!("danger_accept_", "invalid_hostnames"),
    concat!("tls_danger_", "accept"),
    concat!("allow_", "invalid_certificates"),
    concat!("accept_invalid_", "certs"),
    concat!("verify_", "none"),
    concat!("NoCertificate", "Verification"),
    concat!("SslVerifyMode", "::NONE"),
    concat!("set_", "verify(SslVerify"),
    concat!("impl ServerCert", "Verifier"),
    concat!(".danger", "ous()"),
];

/// The places that may hold one, each with what it does instead.
const ALLOWED: &[(&str, &str, &str)] = &[(
    "crates/steps/src/tls.rs",
    concat!(".danger", "ous()"),
    "installs the platform's verifier with the owner's certificates besides",
)];

#[test]
fn no_certificate_goes_unverified() -> Result<()> {
    let mut objections = Vec::new();
    let mut met = Vec::new();
    for text in texts()? {
        if !(text.path.ends_with(".rs") || text.path.ends_with(".toml")) {
            continue;
        }
        for (index, line) in text.content.lines().enumerate() {
            for way in WAYS.iter().filter(|way| line.contains(**way)) {
                let allowed = ALLOWED
                    .iter()
                    .find(|(path, allowed, _)| *path == text.path && allowed == way);
                match allowed {
                    Some((path, _, _)) => met.push(*path),
                    None => objections.push(format!("{}:{}: {way}", text.path, index + 1)),
                }
            }
        }
    }
    for (path, way, instead) in ALLOWED {
        if met.iter().filter(|met| *met == path).count() != 1 {
            objections.push(format!("{path} holds `{way}` once: it {instead}"));
        }
    }
    expect_none(&objections)
}
