//! `revoked.pem`: the list of revoked certificates (CRL, RFC 5280).

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{CertificateRevocationListParams, KeyIdMethod, RevokedCertParams, SerialNumber};
use x509_parser::parse_x509_crl;
use x509_parser::pem::parse_x509_pem;

use super::certificate::{Authority, CLOCK_SKEW, unexpected};
use super::index::Serial;

/// A list of revoked certificates.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RevocationList {
    /// Its number: the next list of the CA has the next one.
    number: u64,
    /// The serial numbers, and when each was revoked.
    revoked: BTreeMap<Serial, SystemTime>,
}

impl RevocationList {
    /// Reads a list.
    pub(super) fn read(pem: &str) -> Result<RevocationList, String> {
        let (_, block) =
            parse_x509_pem(pem.as_bytes()).map_err(|error| format!("this is not PEM: {error}"))?;
        let (_, list) = parse_x509_crl(&block.contents)
            .map_err(|error| format!("this is not a list of revoked certificates: {error}"))?;
        let number = list.crl_number().ok_or("the list has no number")?;
        let number = u64::try_from(number).map_err(|_| "the number of the list has more than 64 bits")?;
        let revoked = list.iter_revoked_certificates().map(|entry| {
            let seconds = entry.revocation_date.timestamp().try_into().unwrap_or_default();
            (Serial(entry.raw_serial().to_vec()), UNIX_EPOCH + Duration::from_secs(seconds))
        });
        Ok(RevocationList { number, revoked: revoked.collect() })
    }

    /// Whether it contains this certificate.
    pub(super) fn contains(&self, serial: &Serial) -> bool {
        self.revoked.contains_key(serial)
    }

    /// Adds a certificate. One that is there keeps its date.
    pub(super) fn add(&mut self, serial: Serial, now: SystemTime) {
        self.revoked.entry(serial).or_insert(now);
    }

    /// The list as PEM, signed, with the next number. It is valid as long as the CA, since nobody issues one regularly.
    pub(super) fn sign(self, authority: &Authority, now: SystemTime) -> Result<String, String> {
        let revoked = self.revoked.into_iter().map(|(serial, at)| RevokedCertParams {
            serial_number: SerialNumber::from_slice(&serial.0),
            revocation_time: at.into(),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: (now - CLOCK_SKEW).into(),
            next_update: authority.not_after().into(),
            crl_number: (self.number + 1).into(),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&authority.issuer()?).map_err(unexpected)?;
        list.pem().map_err(unexpected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_what_it_had_and_counts_on() {
        let begin = UNIX_EPOCH + Duration::from_hours(500_000);
        let (authority, _) = Authority::make("members", 10, begin).expect("a CA");
        // The first bit of a positive number is 0, so DER puts a byte before 0x80.
        let serials = [vec![1], vec![0, 0x80, 2], vec![0x7f; 20]].map(Serial);
        let mut list = RevocationList::default();
        for (at, serial) in (0_u32..).zip(&serials) {
            let now = begin + Duration::from_mins(1) * at;
            list.add(serial.clone(), now);
            // The date of the first time stays.
            list.add(serials[0].clone(), now);
            let pem = list.sign(&authority, now).expect("a list");
            list = RevocationList::read(&pem).expect("a list");
            assert_eq!(list.number, u64::from(at) + 1);
            assert!(list.contains(serial));
        }
        let dates: Vec<u64> = (list.revoked.values())
            .map(|date| date.duration_since(begin).map(|passed| passed.as_secs()).unwrap_or_default())
            .collect();
        assert_eq!(
            list.revoked.keys().cloned().collect::<Vec<_>>(),
            [&serials[1], &serials[0], &serials[2]].map(Clone::clone)
        );
        assert_eq!(dates, [60, 0, 120]);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let (_, pair) = Authority::make("members", 10, UNIX_EPOCH + CLOCK_SKEW).expect("a CA");
        for text in ["", "x", &pair.certificates] {
            assert!(RevocationList::read(text).is_err(), "{text}");
        }
    }
}
