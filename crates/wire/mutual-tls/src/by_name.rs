//! Verifies the certificate of a switch by the name of its node.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};

use crate::identity::Subject;

/// Verifies chain, dates, use and revocation as rustls does, and then whether the certificate is that of a switch.
///
/// rustls looks for the address that was dialled, and never at the common name. Certificates of Open vSwitch have neither addresses nor
/// valid DNS names, and a switch is known by the name of its node wherever it is.
#[derive(Debug)]
pub(crate) struct ByName {
    /// Verifies all but the name.
    pub(crate) inner: Arc<WebPkiServerVerifier>,
    /// The node.
    pub(crate) name: String,
}

/// What a verification finds besides names. rustls compares them last, so a certificate that fails for its names alone has passed the rest.
pub(crate) fn whatever_its_name(verified: Result<ServerCertVerified, Error>) -> Result<(), Error> {
    match verified {
        Ok(_)
        | Err(Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => Ok(()),
        Err(error) => Err(error),
    }
}

impl ServerCertVerifier for ByName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        whatever_its_name(self.inner.verify_server_cert(
            certificate,
            intermediates,
            server_name,
            stapled,
            now,
        ))?;
        let is_it = Subject::of(certificate).and_then(|subject| subject.is_switch(&self.name));
        is_it.map(|()| ServerCertVerified::assertion()).map_err(|why| {
            let why = Arc::new(std::io::Error::other(why));
            Error::InvalidCertificate(CertificateError::Other(OtherError(why)))
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
