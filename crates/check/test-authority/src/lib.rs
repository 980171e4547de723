//! Certificates for tests: an [`Authority`] in a folder of its own. It is made with rcgen alone, so that it shares no code with `weft pki`.
//! [`ovs_pki`] has those of Open vSwitch's own tool.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot write its files fails")]

pub mod ovs_pki;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use mutual_tls::{Credentials, Files, Pair};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber,
    date_time_ymd,
};

/// An authority and the folder of its files.
#[derive(Debug)]
pub struct Authority {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

/// What a certificate is made of.
#[derive(Debug, Clone)]
pub struct Leaf<'a> {
    /// The common name, which is also that of its files.
    pub name: &'a str,
    /// The organisation, such as `weft:operator`.
    pub role: Option<&'a str>,
    /// A DNS name or an address.
    pub host: Option<&'a str>,
    /// Its serial number.
    pub serial: u64,
    /// The year in which it expires.
    pub until: i32,
}

impl<'a> Leaf<'a> {
    /// A certificate with this name and no role, valid until 2100.
    pub fn new(name: &'a str) -> Self {
        Leaf { name, role: None, host: None, serial: 1, until: 2100 }
    }
}

impl Default for Authority {
    fn default() -> Self {
        Authority::new()
    }
}

impl Authority {
    /// A new one, which has revoked nothing.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::default();
        // Verifiers look for an authority by its name.
        let name = folder.path().file_name().unwrap().to_string_lossy().into_owned();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        let authority = Authority { folder, issuer: Issuer::new(params, key) };
        authority.revoke(&[], 1);
        authority
    }

    /// A file in its folder: `ca.pem`, `revoked.pem`, or `NAME.pem` and `NAME.key` of a certificate.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Publishes a revocation list with exactly these serial numbers. `number` must be greater than that of the list before.
    pub fn revoke(&self, serials: &[u64], number: u64) {
        let revoked = serials.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2026, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2026, 1, 1),
            next_update: date_time_ymd(2100, 1, 1),
            crl_number: SerialNumber::from(number),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&self.issuer).unwrap().pem().unwrap();
        fs::write(self.path("new"), list).unwrap();
        fs::rename(self.path("new"), self.path("revoked.pem")).unwrap();
    }

    /// Writes a certificate and its key. Files of the same name are overwritten.
    pub fn issue(&self, leaf: &Leaf<'_>) -> Files {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, leaf.name);
        if let Some(role) = leaf.role {
            params.distinguished_name.push(DnType::OrganizationName, role);
        }
        params.subject_alt_names.extend(leaf.host.map(|host| match host.parse() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName(host.try_into().unwrap()),
        }));
        params.serial_number = Some(SerialNumber::from(leaf.serial));
        params.not_after = date_time_ymd(leaf.until, 1, 1);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let [pair_certificate, pair_key] =
            ["pem", "key"].map(|end| self.path(&format!("{}.{end}", leaf.name)));
        fs::write(&pair_certificate, certificate.pem()).unwrap();
        fs::write(&pair_key, key.serialize_pem()).unwrap();
        fs::set_permissions(&pair_key, fs::Permissions::from_mode(0o600)).unwrap();
        Files { own: Some(Pair { certificate: pair_certificate, key: pair_key }), ..self.trust() }
    }

    /// The files of somebody who has no certificate.
    pub fn trust(&self) -> Files {
        Files { own: None, authorities: self.path("ca.pem"), revoked: Some(self.path("revoked.pem")) }
    }

    /// The same, read.
    pub fn credentials(&self, leaf: &Leaf<'_>) -> Arc<Credentials> {
        Credentials::load(self.issue(leaf)).unwrap()
    }
}

/// What a controller on this machine has.
pub fn controller() -> Leaf<'static> {
    Leaf { role: Some("weft:controller"), host: Some("localhost"), ..Leaf::new("controller") }
}
