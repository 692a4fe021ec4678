//! Encrypted connections: the cryptography, and which certificates are trusted.
//!
//! The cryptography is graviola's, which needs no C compiler. It wants instructions that nearly all processors of the last ten
//! years have; on others, and on other kinds of processors, only `http` is spoken and the cache can be filled by other tools.

use std::path::Path;

use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsConfigBuilder};

use crate::Error;

const ELSEWHERE: &str =
    "fetch the model with `hf download` or on another machine: what is in the cache runs here";

/// How connections are encrypted, with `bundle` as what is trusted, or else what the machine trusts.
pub fn config(bundle: Option<&Path>) -> Result<TlsConfig, Error> {
    let builder = with_cryptography(TlsConfig::builder())?;
    Ok(builder.root_certs(roots(bundle)?).build())
}

/// The certificates of `bundle`; else of the machine, where a company adds its own; else those that browsers trust.
fn roots(bundle: Option<&Path>) -> Result<RootCerts, Error> {
    let found = match bundle {
        Some(path) if path.is_dir() => rustls_native_certs::load_certs_from_paths(None, Some(path)),
        Some(path) => rustls_native_certs::load_certs_from_paths(Some(path), None),
        None => rustls_native_certs::load_native_certs(),
    };
    if found.certs.is_empty() {
        let Some(path) = bundle else {
            return Ok(RootCerts::WebPki);
        };
        let why = found.errors.first().map_or("it holds no certificates".to_owned(), ToString::to_string);
        return Err(Error::Tls {
            why: format!("{}: {why}", path.display()),
            hint: "set SSL_CERT_FILE, REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE to a file of certificates in PEM, or unset it",
        });
    }
    let certificates: Vec<_> = found.certs.iter().map(|one| Certificate::from_der(one).to_owned()).collect();
    Ok(RootCerts::new_with_certs(&certificates))
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn with_cryptography(builder: TlsConfigBuilder) -> Result<TlsConfigBuilder, Error> {
    if let Some(what) = lacking() {
        return Err(Error::Tls { why: format!("this processor lacks {what}"), hint: ELSEWHERE });
    }
    let provider = std::sync::Arc::new(rustls_graviola::default_provider());
    Ok(builder.unversioned_rustls_crypto_provider(provider))
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn with_cryptography(_: TlsConfigBuilder) -> Result<TlsConfigBuilder, Error> {
    let why = format!("there is no cryptography for {} in this program", std::env::consts::ARCH);
    Err(Error::Tls { why, hint: ELSEWHERE })
}

/// An instruction that the cryptography needs and the processor lacks: it would panic.
#[cfg(target_arch = "x86_64")]
fn lacking() -> Option<&'static str> {
    let needs = [
        ("AES", is_x86_feature_detected!("aes")),
        ("PCLMULQDQ", is_x86_feature_detected!("pclmulqdq")),
        ("BMI1", is_x86_feature_detected!("bmi1")),
        ("BMI2", is_x86_feature_detected!("bmi2")),
        ("ADX", is_x86_feature_detected!("adx")),
        ("AVX", is_x86_feature_detected!("avx")),
        ("AVX2", is_x86_feature_detected!("avx2")),
    ];
    needs.into_iter().find(|(_, has)| !has).map(|(name, _)| name)
}

#[cfg(target_arch = "aarch64")]
fn lacking() -> Option<&'static str> {
    use std::arch::is_aarch64_feature_detected;
    let needs = [
        ("NEON", is_aarch64_feature_detected!("neon")),
        ("AES", is_aarch64_feature_detected!("aes")),
        ("PMULL", is_aarch64_feature_detected!("pmull")),
        ("SHA2", is_aarch64_feature_detected!("sha2")),
    ];
    needs.into_iter().find(|(_, has)| !has).map(|(name, _)| name)
}
