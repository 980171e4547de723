//! The name and the role in a certificate.

use std::fmt;
use std::net::IpAddr;

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

/// The begin of a role in the organisation of a subject.
const ROLE: &str = "weft:";
/// The role of tenants, before the name of one.
const TENANT: &str = "tenant";
/// What Open vSwitch's `ovs-pki` writes between the name of a switch and a number.
const OVS_ID: &str = " id:";
/// The begin of a SPIFFE id, and the first part of its path if it is about Weft.
const SPIFFE: &str = "spiffe://";
const SPIFFE_WEFT: &str = "weft";

/// What the holder of a certificate may do.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// It is a controller.
    Controller,
    /// It is a host with a switch.
    Node,
    /// It sees all.
    Viewer,
    /// It sees and changes what belongs to the tenant of this name.
    Tenant(String),
    /// It sees and changes all.
    Operator,
}

/// The subject of a certificate.
///
/// The name is the common name, and the role the organisation, such as `weft:operator` or `weft:tenant:acme`: what `weft pki` writes. A
/// SPIFFE id whose path is `/weft/ROLE/NAME` or `/weft/tenant/TENANT/NAME` has both, whatever its trust domain.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// Its name.
    pub name: String,
    /// Its role. `None`: the certificate was not made for Weft.
    pub role: Option<Role>,
}

impl Role {
    /// The role with this name, such as `operator` or `tenant:acme`.
    pub fn of(name: &str) -> Option<Role> {
        if let Some(tenant) = name.strip_prefix(TENANT).and_then(|rest| rest.strip_prefix(':')) {
            return (!tenant.is_empty()).then(|| Role::Tenant(tenant.to_owned()));
        }
        [Role::Controller, Role::Node, Role::Viewer, Role::Operator]
            .into_iter()
            .find(|role| role.to_string() == name)
    }

    /// The role that this organisation of a subject means, such as `weft:operator`.
    pub fn of_organisation(organisation: &str) -> Option<Role> {
        Role::of(organisation.strip_prefix(ROLE)?)
    }

    /// The organisation of a subject with this role.
    pub fn organisation(&self) -> String {
        format!("{ROLE}{self}")
    }
}

impl Identity {
    /// The name and the role in a certificate, which nobody has verified.
    ///
    /// # Errors
    /// It is malformed, or has no name.
    pub fn of_certificate(certificate: &CertificateDer<'_>) -> Result<Identity, String> {
        Subject::of(certificate)?.identity()
    }

    /// The name of the switch whose certificate it is: that of its node, with no other role.
    ///
    /// # Errors
    /// It is the certificate of somebody else.
    pub fn of_switch(&self) -> Result<&str, String> {
        match self.role {
            None | Some(Role::Node) => Ok(&self.name),
            Some(_) => Err(format!("its certificate is that of {self}, not of a switch")),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Role::Controller => f.write_str("controller"),
            Role::Node => f.write_str("node"),
            Role::Viewer => f.write_str("viewer"),
            Role::Tenant(tenant) => write!(f, "{TENANT}:{tenant}"),
            Role::Operator => f.write_str("operator"),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.role {
            Some(role) => write!(f, "{} ({role})", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// A subject alternative name of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AlternativeName {
    /// A DNS name, as it is written. `ovs-pki` writes some that are not valid.
    Host(String),
    /// An address.
    Address(IpAddr),
    /// A URI, such as a SPIFFE id.
    Uri(String),
    /// One of another kind, as text.
    Other(String),
}

/// The subject alternative names of a certificate, in its order.
///
/// # Errors
/// They are malformed.
pub fn alternative_names(certificate: &X509Certificate<'_>) -> Result<Vec<AlternativeName>, String> {
    let names = certificate.subject_alternative_name().map_err(|error| error.to_string())?;
    let names = names.iter().flat_map(|names| &names.value.general_names);
    Ok(names
        .map(|name| match name {
            GeneralName::DNSName(host) => AlternativeName::Host((*host).to_owned()),
            GeneralName::URI(uri) => AlternativeName::Uri((*uri).to_owned()),
            GeneralName::IPAddress(bytes) => match address(bytes) {
                Some(address) => AlternativeName::Address(address),
                None => AlternativeName::Other(name.to_string()),
            },
            _ => AlternativeName::Other(name.to_string()),
        })
        .collect())
}

/// The names in a certificate.
#[derive(Debug, Default)]
pub(crate) struct Subject {
    common_name: Option<String>,
    organisation: Option<String>,
    hosts: Vec<String>,
    addresses: Vec<IpAddr>,
    spiffe: Option<String>,
}

impl Subject {
    /// Reads a certificate.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Result<Subject, String> {
        let (_, certificate) = X509Certificate::from_der(certificate)
            .map_err(|error| format!("a malformed certificate: {error}"))?;
        let name = certificate.subject();
        let text = |value: Option<&x509_parser::x509::AttributeTypeAndValue<'_>>| {
            // An empty name is none: who has it could not be told from others.
            value.and_then(|value| value.as_str().ok()).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let mut subject = Subject {
            common_name: text(name.iter_common_name().next())
                .map(|name| without_id(&name).to_owned())
                .filter(|name| !name.is_empty()),
            organisation: text(name.iter_organization().next()),
            ..Subject::default()
        };
        // Other parts of the certificate may still name its owner.
        for alternative in alternative_names(&certificate).unwrap_or_default() {
            match alternative {
                AlternativeName::Host(name) if without_id(&name).is_empty() => {}
                AlternativeName::Host(name) => subject.hosts.push(without_id(&name).to_owned()),
                AlternativeName::Address(address) => subject.addresses.push(address),
                AlternativeName::Uri(uri) if uri.starts_with(SPIFFE) => subject.spiffe = Some(uri),
                AlternativeName::Uri(_) | AlternativeName::Other(_) => {}
            }
        }
        Ok(subject)
    }

    /// Its name and role.
    pub(crate) fn identity(&self) -> Result<Identity, String> {
        if let Some(identity) = self.spiffe.as_deref().and_then(of_spiffe) {
            return Ok(identity);
        }
        let name =
            self.spiffe.clone().or_else(|| self.common_name.clone()).or_else(|| self.hosts.first().cloned());
        let name =
            name.ok_or("a certificate without a name: it has no common name, DNS name or SPIFFE id")?;
        let role = self.organisation.as_deref().and_then(Role::of_organisation);
        Ok(Identity { name, role })
    }

    /// Whether it is the certificate of this switch: one of its names is that of the node or of its host, and it has no other role.
    pub(crate) fn is_switch(&self, name: &str) -> Result<(), String> {
        let identity = self.identity()?;
        identity.of_switch()?;
        let address = name.parse().ok();
        let is_named = identity.name == name
            || self.common_name.as_deref() == Some(name)
            || self.hosts.iter().any(|host| host == name)
            || address.is_some_and(|address| self.addresses.contains(&address));
        if is_named { Ok(()) } else { Err(format!("its certificate names {}, not {name}", identity.name)) }
    }
}

/// The name that `ovs-pki` was given.
fn without_id(name: &str) -> &str {
    name.split_once(OVS_ID).map_or(name, |(name, _)| name)
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from).ok();
    four.or_else(|| <[u8; 16]>::try_from(bytes).map(IpAddr::from).ok())
}

fn of_spiffe(id: &str) -> Option<Identity> {
    let mut parts = id.strip_prefix(SPIFFE)?.split('/').skip(1);
    if parts.next()? != SPIFFE_WEFT {
        return None;
    }
    let role = match parts.next()? {
        TENANT => Role::Tenant(parts.next().filter(|tenant| !tenant.is_empty())?.to_owned()),
        role => Role::of(role)?,
    };
    let name = parts.next().filter(|name| !name.is_empty())?.to_owned();
    parts.next().is_none().then_some(Identity { name, role: Some(role) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spiffe(id: &str) -> Option<String> {
        of_spiffe(id).map(|identity| identity.to_string())
    }

    #[test]
    fn a_spiffe_id_has_role_and_name() {
        for (id, identity) in [
            ("spiffe://example.org/weft/operator/alice", "alice (operator)"),
            ("spiffe://example.org/weft/node/hv1", "hv1 (node)"),
            ("spiffe://example.org/weft/tenant/acme/carol", "carol (tenant:acme)"),
        ] {
            assert_eq!(spiffe(id).as_deref(), Some(identity), "{id}");
        }
        for id in [
            "spiffe://example.org/weft/operator",
            "spiffe://example.org/weft/operator/",
            "spiffe://example.org/weft/operator/alice/more",
            "spiffe://example.org/weft/weft:operator/alice",
            "spiffe://example.org/weft/root/alice",
            "spiffe://example.org/weft/tenant/acme",
            "spiffe://example.org/weft/tenant//carol",
            "spiffe://example.org/weft/tenant:acme/carol/more",
            "spiffe://example.org/other/operator/alice",
            "spiffe://weft/operator/alice",
            "spiffe://",
        ] {
            assert_eq!(spiffe(id), None, "{id}");
        }
    }

    #[test]
    fn an_organisation_is_a_role_only_with_the_prefix_of_weft() {
        let role = |organisation: &str| {
            let subject = Subject {
                common_name: Some("a".to_owned()),
                organisation: Some(organisation.to_owned()),
                ..Subject::default()
            };
            subject.identity().unwrap().role
        };
        assert_eq!(role("weft:operator"), Some(Role::Operator));
        for none in ["operator", "weft:", "weft:Operator", "weft:tenant", "weft:tenant:"] {
            assert_eq!(role(none), None, "{none}");
        }
        assert_eq!(role("weft:tenant:acme"), Some(Role::Tenant("acme".to_owned())));
        assert_eq!(role(&Role::Node.organisation()), Some(Role::Node));
    }

    #[test]
    fn a_switch_has_the_name_of_its_node_and_no_other_role() {
        let subject = |name: &str, organisation: Option<&str>| Subject {
            common_name: Some(name.to_owned()),
            organisation: organisation.map(str::to_owned),
            addresses: vec![IpAddr::from([192, 0, 2, 1])],
            ..Subject::default()
        };
        assert_eq!(subject("hv1", None).is_switch("hv1"), Ok(()));
        assert_eq!(subject("hv1", Some("weft:node")).is_switch("192.0.2.1"), Ok(()));
        assert_eq!(
            subject("hv2", Some("weft:node")).is_switch("hv1"),
            Err("its certificate names hv2, not hv1".to_owned())
        );
        assert_eq!(
            subject("hv1", Some("weft:operator")).is_switch("hv1"),
            Err("its certificate is that of hv1 (operator), not of a switch".to_owned())
        );
        assert_eq!(without_id("hv1 id:3c5f8a2e"), "hv1");
    }
}
