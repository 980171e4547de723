//! Errors of a connection, with what the other side says by them and what to do.

use std::io;
use std::path::Path;

use rustls::{AlertDescription, Error};

/// What reading says if the other side, or somebody between, has cut the connection: its end was not announced.
const CUT: &str = "the connection was cut, since its end was not announced (close_notify): the process at the other end was killed or has failed, or \
                   somebody between has ended the connection";

/// An error of a handshake, or of reading, when this certificate was shown.
pub(crate) fn explained(error: io::Error, shown: Option<&Path>) -> io::Error {
    let Some(alert) = alert(&error) else { return error };
    let shown = shown.map_or_else(|| "that was not shown".to_owned(), |path| path.display().to_string());
    let (what, remedy) = match alert {
        AlertDescription::UnknownCA => (
            format!("refuses the certificate {shown}"),
            "the authorities that it trusts must have signed the certificate; a host with Open vSwitch gets them by `ovs-vsctl set-ssl`",
        ),
        AlertDescription::CertificateExpired => (
            format!("refuses the certificate {shown}"),
            "renew the certificate, or set the clock of that machine",
        ),
        AlertDescription::UnsupportedCertificate => (
            format!("refuses the certificate {shown}"),
            "if the certificate lists extended key usages, it needs both serverAuth and clientAuth",
        ),
        AlertDescription::CertificateRequired => {
            ("wants a certificate".to_owned(), "show one that its authorities have signed")
        }
        AlertDescription::BadCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateUnknown
        | AlertDescription::AccessDenied
        | AlertDescription::DecryptError => {
            (format!("refuses the certificate {shown}"), "the log of that machine says why")
        }
        AlertDescription::ProtocolVersion => (
            "has no version of TLS in common with this one".to_owned(),
            "let it speak TLS 1.2 or 1.3; of Open vSwitch, see the option --ssl-protocols",
        ),
        _ => return error,
    };
    io::Error::new(error.kind(), format!("the other side {what} ({alert:?}); {remedy}"))
}

/// An error of reading once the handshake is done, when this certificate was shown.
pub(crate) fn explained_end(error: io::Error, shown: Option<&Path>) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(io::ErrorKind::UnexpectedEof, CUT),
        _ => explained(error, shown),
    }
}

/// An error of a connection to a switch that has said nothing yet, when this certificate was shown. With TLS 1.3, the handshake is done
/// before the switch looks at the certificate, and often the end of the connection arrives in place of its alert.
pub(crate) fn explained_silence(error: io::Error, shown: Option<&Path>) -> io::Error {
    if alert(&error).is_some() {
        return explained(error, shown);
    }
    let shown = shown.map_or_else(|| "of this side".to_owned(), |path| path.display().to_string());
    let text = format!(
        "the connection was ended before anything came ({error}); if the switch refuses the certificate {shown}, the authorities that it \
         trusts must have signed the certificate: `ovs-vsctl get-ssl` shows them"
    );
    io::Error::new(error.kind(), text)
}

/// The alert that the other side has sent, if it is that.
fn alert(error: &io::Error) -> Option<AlertDescription> {
    match error.get_ref()?.downcast_ref::<Error>()? {
        Error::AlertReceived(alert) => Some(*alert),
        _ => None,
    }
}
