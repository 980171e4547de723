//! The CA and what it signs: certificates with keys of ECDSA on P-256.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mutual_tls::{AlternativeName, Role, alternative_names};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _, SanType,
};
use x509_parser::certificate::X509Certificate;
use x509_parser::pem::parse_x509_pem;
use zeroize::Zeroizing;

use super::index::Serial;
use super::names::{Address, Name};

/// How long before it is issued a certificate begins to be valid: clocks of hosts differ.
pub(super) const CLOCK_SKEW: Duration = Duration::from_mins(5);
/// A day.
const DAY: Duration = Duration::from_hours(24);

/// A private key as text, and the certificates for it. The text is wiped from memory when it is dropped.
pub(super) struct Pair {
    /// PEM: the certificate, then the CA's unless it is the CA's.
    pub(super) certificates: String,
    /// PEM, PKCS #8.
    pub(super) key: Zeroizing<String>,
}

/// What is known of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Certificate {
    pub(super) serial: Serial,
    /// When it expires.
    pub(super) not_after: SystemTime,
    /// Its subject alternative names.
    pub(super) addresses: Vec<Address>,
}

impl Certificate {
    /// Reads the first certificate of a PEM file.
    pub(super) fn read(pem: &str) -> Result<Certificate, String> {
        parsed(pem, |certificate| {
            let names = alternative_names(certificate)?;
            let seconds = certificate.validity().not_after.timestamp();
            Ok(Certificate {
                serial: Serial(certificate.raw_serial().to_vec()),
                not_after: UNIX_EPOCH + Duration::from_secs(seconds.try_into().unwrap_or_default()),
                addresses: names.into_iter().map(address).collect::<Result<_, _>>()?,
            })
        })
    }
}

fn address(name: AlternativeName) -> Result<Address, String> {
    match name {
        AlternativeName::Host(name) => name.parse(),
        AlternativeName::Address(ip) => Ok(Address::Ip(ip)),
        AlternativeName::Uri(name) | AlternativeName::Other(name) => {
            Err(format!("it is for {name}, which is neither an IP address nor a DNS name"))
        }
    }
}

/// What `take` takes of the first certificate in a PEM file.
fn parsed<T>(pem: &str, take: impl FnOnce(&X509Certificate<'_>) -> Result<T, String>) -> Result<T, String> {
    let (_, block) = parse_x509_pem(pem.as_bytes()).map_err(|error| format!("this is not PEM: {error}"))?;
    let certificate =
        block.parse_x509().map_err(|error| format!("this does not begin with a certificate: {error}"))?;
    take(&certificate)
}

/// A CA: its certificate, and the key that signs.
pub(super) struct Authority {
    /// Its certificate, as PEM.
    pem: String,
    key: Zeroizing<KeyPair>,
    not_after: SystemTime,
}

impl Authority {
    /// Makes a CA of controllers or of members that is valid for so many days. It signs no other CAs.
    ///
    /// Its name contains the beginning of its key's identifier: a verifier finds the revocation list of a CA by the CA's name, so that two
    /// CAs, such as the old and the new one during a change, must not have the same.
    pub(super) fn make(of: &str, days: u32, now: SystemTime) -> Result<(Authority, Pair), String> {
        let key = generate()?;
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.not_before = (now - CLOCK_SKEW).into();
        params.not_after = (now + DAY * days).into();
        let identifier = Serial(params.key_identifier(&*key).into_iter().take(4).collect());
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, format!("Weft CA of {of} {identifier}"));
        let pem = params.self_signed(&*key).map_err(unexpected)?.pem();
        let pair = Pair { certificates: pem.clone(), key: key.serialize_pem().into() };
        let not_after = Certificate::read(&pem)?.not_after;
        Ok((Authority { pem, key, not_after }, pair))
    }

    /// The CA with this certificate and this key. The error is about the key if it is the second of the two texts.
    pub(super) fn of(certificate: String, key: &str) -> Result<Authority, AuthorityError> {
        let known = Certificate::read(&certificate).map_err(AuthorityError::Certificate)?;
        let key =
            Zeroizing::new(KeyPair::from_pem(key).map_err(|error| {
                AuthorityError::Key(format!("this is not a private key in PEM: {error}"))
            })?);
        let public = parsed(&certificate, |certificate| Ok(certificate.public_key().raw.to_vec()));
        if public.map_err(AuthorityError::Certificate)? != key.subject_public_key_info() {
            return Err(AuthorityError::Key("this key does not belong to the CA's certificate".to_owned()));
        }
        Ok(Authority { pem: certificate, key, not_after: known.not_after })
    }

    /// When it expires.
    pub(super) fn not_after(&self) -> SystemTime {
        self.not_after
    }

    /// Signs a certificate for a new key. It is valid for so many days, but not longer than the CA. It serves for both ends of a connection: Weft
    /// and Open vSwitch dial each other, and both refuse a certificate whose extended key usage lacks theirs.
    pub(super) fn issue(
        &self,
        name: &Name,
        role: &Role,
        addresses: &[Address],
        days: u32,
        now: SystemTime,
    ) -> Result<Pair, String> {
        let key = generate()?;
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.not_before = (now - CLOCK_SKEW).into();
        params.not_after = (now + DAY * days).min(self.not_after).into();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, role.organisation());
        params.distinguished_name.push(DnType::CommonName, name.to_string());
        for address in addresses {
            params.subject_alt_names.push(match address {
                Address::Ip(ip) => SanType::IpAddress(*ip),
                Address::Dns(name) => SanType::DnsName(name.as_str().try_into().map_err(unexpected)?),
            });
        }
        let signed = params.signed_by(&*key, &self.issuer()?).map_err(unexpected)?;
        // Open vSwitch takes the CA's certificate from the chain, when it is to trust the first CA that it sees (`--bootstrap`).
        Ok(Pair { certificates: signed.pem() + &self.pem, key: key.serialize_pem().into() })
    }

    /// What signs.
    pub(super) fn issuer(&self) -> Result<Issuer<'static, &KeyPair>, String> {
        Issuer::from_ca_cert_pem(&self.pem, &*self.key).map_err(unexpected)
    }
}

/// Why a CA cannot be used: what is wrong with its certificate, or with its key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AuthorityError {
    Certificate(String),
    Key(String),
}

/// A new key. The copy that `ring` keeps inside is not wiped when the key is dropped.
fn generate() -> Result<Zeroizing<KeyPair>, String> {
    KeyPair::generate().map(Zeroizing::new).map_err(unexpected)
}

/// The text of an error that nothing in the arguments should cause.
pub(super) fn unexpected(error: impl std::fmt::Display) -> String {
    format!("cannot sign: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    /// A time in whole seconds, as certificates have them.
    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_hours(500_000)
    }

    fn authority(days: u32) -> Authority {
        Authority::make("members", days, now()).expect("a CA").0
    }

    #[test]
    fn a_certificate_tells_what_was_asked_for() {
        let addresses =
            ["hv1", "10.0.0.1", "2001:db8::1"].map(|text| text.parse::<Address>().expect("an address"));
        let pair = authority(10).issue(&name("hv1"), &Role::Node, &addresses, 3, now()).expect("a pair");
        let read = Certificate::read(&pair.certificates).expect("a certificate");
        assert_eq!((read.not_after, read.addresses), (now() + DAY * 3, addresses.to_vec()));
        assert_eq!(pair.certificates.matches("BEGIN CERTIFICATE").count(), 2);
        assert!(pair.key.starts_with("-----BEGIN PRIVATE KEY-----"));
    }

    #[test]
    fn no_certificate_outlives_its_ca() {
        let pair = authority(10).issue(&name("a"), &Role::Viewer, &[], 11, now()).expect("a pair");
        let read = Certificate::read(&pair.certificates).expect("a certificate");
        assert_eq!(read.not_after, now() + DAY * 10);
    }

    #[test]
    fn two_authorities_have_different_names() {
        let subject = || {
            let pem = authority(10).pem;
            parsed(&pem, |certificate| Ok(certificate.subject().to_string())).expect("a subject")
        };
        let (one, other) = (subject(), subject());
        assert!(one.starts_with("CN=Weft CA of members ") && one != other, "{one} {other}");
    }

    #[test]
    fn a_key_of_another_authority_is_refused() {
        let (_, one) = Authority::make("members", 10, now()).expect("a CA");
        let (_, other) = Authority::make("members", 10, now()).expect("a CA");
        assert!(Authority::of(one.certificates.clone(), &one.key).is_ok());
        let error = Authority::of(one.certificates.clone(), &other.key).err();
        assert!(matches!(error, Some(AuthorityError::Key(why)) if why.contains("does not belong")));
        let error = Authority::of(one.certificates.clone(), "").err();
        assert!(matches!(error, Some(AuthorityError::Key(why)) if why.contains("not a private key")));
        let error = Authority::of("x".to_owned(), &one.key).err();
        assert!(matches!(error, Some(AuthorityError::Certificate(why)) if why.contains("not PEM")));
    }
}
