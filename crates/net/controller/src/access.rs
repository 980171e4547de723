//! What a caller may do: the one place where roles are compared with calls, before a call is read.

use mutual_tls::{Identity, Role};
use tonic::Status;
use tonic::codegen::http::{Method, Request};
use weft_core::api_names::AT_TOP;

use crate::problem::is_grpc;

/// What a call does, as far as roles tell it apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    /// It reads objects, or what is to be known of them, and can be limited to those of a tenant.
    ReadObjects,
    /// It changes objects, likewise.
    ChangeObjects,
    /// It says which kinds and listings the rules declare, or that the controller serves. That is of no network.
    Describe,
    /// It asks what becomes of a packet, and the answer can be limited to what belongs to a tenant.
    Ask,
    /// It reads anything else.
    Read,
    /// It reads what is of the controller's machine, such as its configuration and its log.
    Inspect,
    /// It may change anything.
    Change,
    /// It asks whether the controller lives. Everybody may.
    Health,
}

/// The calls of the API. A test holds that each has an entry here.
pub(crate) const CALLS: [(&str, Verb); 23] = [
    ("Apply", Verb::ChangeObjects),
    ("Delete", Verb::ChangeObjects),
    ("Set", Verb::ChangeObjects),
    ("Get", Verb::ReadObjects),
    ("Watch", Verb::ReadObjects),
    ("ListFlows", Verb::Read),
    ("ListLogicalFlows", Verb::Read),
    ("ReadListing", Verb::Read),
    ("ListListings", Verb::Describe),
    ("CountFlows", Verb::Read),
    ("ListTunnels", Verb::Read),
    ("Trace", Verb::Ask),
    ("Explain", Verb::Read),
    ("WhyNot", Verb::Read),
    ("Status", Verb::ReadObjects),
    ("History", Verb::Read),
    ("Rollback", Verb::Change),
    ("LoadRules", Verb::Change),
    ("RollbackRules", Verb::Change),
    ("RulesHistory", Verb::Read),
    ("TakeSnapshot", Verb::Read),
    ("ReadDiagnostics", Verb::Inspect),
    ("WatchReceipts", Verb::ReadObjects),
];

/// The service of these calls, and those that describe it or say that it serves.
pub(crate) const SERVICE: &str = "weft.v1.Controller";
const ABOUT: [&str; 3] = [
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
];
/// The paths of HTTP that say whether the controller lives, and whether it serves.
pub(crate) const HEALTH: [&str; 2] = ["/livez", "/readyz"];
/// The path of HTTP with the metrics. They name switches.
pub(crate) const METRICS: &str = "/metrics";
/// The methods of HTTP that the API has. A client can send any other word.
pub(crate) const METHODS: [Method; 6] =
    [Method::GET, Method::HEAD, Method::PUT, Method::POST, Method::PATCH, Method::DELETE];
/// The paths of HTTP that describe the API.
const DESCRIPTIONS: [&str; 3] = ["openapi.json", "schema", "listings"];
/// The paths that are of objects beside those of their kinds: documents that are applied, and the status.
const APPLY: &str = "apply";
const STATUS: &str = "status";
/// The path that is of the controller's machine.
pub(crate) const DIAGNOSTICS: &str = "diagnostics";
/// The paths of `POST` that only read: their parameters are in the body. A test compares them with the paths of HTTP.
pub(crate) const QUESTIONS: [(&str, Verb); 3] =
    [("/v1/trace", Verb::Ask), ("/v1/explain", Verb::Read), ("/v1/why-not", Verb::Read)];

/// On whose behalf a connection calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Access {
    /// Whoever can connect may do everything: a unix socket, whose mode admits its users, or TCP on loopback.
    Open,
    /// Nobody is known yet: over TLS, without a certificate. Each request needs a token.
    Unknown,
    /// The subject of a certificate, or the owner of a token.
    Of(Identity),
}

/// What a request does. What is unknown may change something.
fn verb<B>(request: &Request<B>) -> Verb {
    let path = request.uri().path();
    if is_grpc(request.headers()) {
        let (service, call) =
            path.strip_prefix('/').and_then(|path| path.split_once('/')).unwrap_or_default();
        let found = CALLS.iter().find(|(name, _)| service == SERVICE && *name == call);
        let about = ABOUT.contains(&service).then_some(Verb::Describe);
        return found.map(|(_, verb)| *verb).or(about).unwrap_or(Verb::Change);
    }
    if HEALTH.contains(&path) {
        return Verb::Health;
    }
    let parts: Vec<&str> = path.strip_prefix("/v1/").unwrap_or_default().split('/').collect();
    // The names of kinds are none of those that the API itself has.
    let is_of_objects = match parts[..] {
        [STATUS] => true,
        [kinds] | [kinds, _] => !kinds.is_empty() && !AT_TOP.contains(&kinds),
        _ => false,
    };
    match *request.method() {
        Method::GET | Method::HEAD | Method::OPTIONS if parts[0] == DIAGNOSTICS => Verb::Inspect,
        Method::GET | Method::HEAD | Method::OPTIONS if is_of_objects => Verb::ReadObjects,
        Method::GET | Method::HEAD | Method::OPTIONS if DESCRIPTIONS.contains(&parts[0]) => Verb::Describe,
        Method::GET | Method::HEAD | Method::OPTIONS => Verb::Read,
        Method::POST if parts == [APPLY] => Verb::ChangeObjects,
        Method::POST => {
            let question = QUESTIONS.iter().find(|(question, _)| *question == path);
            question.map_or(Verb::Change, |(_, verb)| *verb)
        }
        Method::PUT | Method::PATCH | Method::DELETE if is_of_objects && parts.len() == 2 => {
            Verb::ChangeObjects
        }
        _ => Verb::Change,
    }
}

impl Access {
    /// The tenant whose objects alone the caller sees and changes.
    pub(crate) fn tenant(&self) -> Option<&str> {
        match self {
            Access::Of(Identity { role: Some(Role::Tenant(tenant)), .. }) => Some(tenant),
            _ => None,
        }
    }

    /// Why a request is refused.
    pub(crate) fn refuse<B>(&self, request: &Request<B>) -> Option<Status> {
        self.refusal(verb(request))
    }

    fn refusal(&self, verb: Verb) -> Option<Status> {
        let identity = match self {
            _ if verb == Verb::Health => return None,
            Access::Open => return None,
            Access::Unknown => {
                return Some(Status::unauthenticated(
                    "nobody may ask without a certificate or a token; show a certificate, or send `authorization: Bearer TOKEN`",
                ));
            }
            Access::Of(identity) => identity,
        };
        let reads = matches!(verb, Verb::ReadObjects | Verb::Describe | Verb::Ask | Verb::Read);
        let can_be_limited =
            matches!(verb, Verb::ReadObjects | Verb::ChangeObjects | Verb::Describe | Verb::Ask);
        let why = match &identity.role {
            Some(Role::Operator) => return None,
            Some(Role::Viewer) if reads => return None,
            Some(Role::Tenant(_)) if can_be_limited => return None,
            Some(Role::Viewer) if verb == Verb::Inspect => {
                format!(
                    "{identity} may not read the configuration and the log of the controller; this needs the role operator"
                )
            }
            Some(Role::Viewer) => {
                format!("{identity} may read and not change anything; changes need the role operator")
            }
            Some(Role::Tenant(_)) => format!(
                "{identity} may read and change objects of the tenant and trace packets from its ports, and nothing else; this needs the role \
                 viewer or operator"
            ),
            Some(Role::Node | Role::Controller) | None => format!(
                "the certificate of {identity} gives no access to the API; it needs the role operator, tenant or viewer, as `weft pki \
                 client NAME --role ROLE` writes it: the organisation (O) weft:operator, weft:viewer or weft:tenant:TENANT in the \
                 subject, or the role in a SPIFFE id, such as spiffe://DOMAIN/weft/viewer/NAME. Without such a certificate, send a token"
            ),
        };
        Some(Status::permission_denied(why))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prost_types::FileDescriptorSet;
    use tonic::codegen::http::header;
    use weft_client::DESCRIPTORS;

    use super::*;

    #[test]
    fn every_call_says_what_it_does() {
        let described: FileDescriptorSet = prost::Message::decode(DESCRIPTORS).unwrap();
        let services: Vec<_> =
            described.file.iter().flat_map(|file| file.service.iter().map(|s| (file.package(), s))).collect();
        let [(package, service)] = &services[..] else { panic!("{} services", services.len()) };
        assert_eq!(format!("{package}.{}", service.name()), SERVICE);
        let described: BTreeSet<&str> =
            service.method.iter().map(prost_types::MethodDescriptorProto::name).collect();
        assert_eq!(CALLS.iter().map(|(name, _)| *name).collect::<BTreeSet<_>>(), described);
    }

    fn request(method: Method, path: &str, grpc: bool) -> Request<()> {
        let request = Request::builder().method(method).uri(path);
        let content = if grpc { "application/grpc+proto" } else { "application/json" };
        request.header(header::CONTENT_TYPE, content).body(()).unwrap()
    }

    #[test]
    fn what_is_unknown_counts_as_a_change() {
        let of = |method, path, grpc| verb(&request(method, path, grpc));
        for path in ["/weft.v1.Controller/Unknown", "/weft.v2.Controller/Get", "/Get", "/"] {
            assert_eq!(of(Method::POST, path, true), Verb::Change, "{path}");
        }
        assert_eq!(of(Method::POST, "/weft.v1.Controller/Get", true), Verb::ReadObjects);
        assert_eq!(of(Method::POST, "/weft.v1.Controller/Trace", true), Verb::Ask);
        assert_eq!(of(Method::POST, "/grpc.health.v1.Health/Check", true), Verb::Describe);
        // The same path without gRPC is none.
        assert_eq!(of(Method::POST, "/weft.v1.Controller/Get", false), Verb::Change);
        for (method, path, verb) in [
            (Method::GET, "/v1/switches", Verb::ReadObjects),
            (Method::GET, "/v1/switches/s1", Verb::ReadObjects),
            (Method::GET, "/v1/switches/s1/flows", Verb::Read),
            (Method::GET, "/v1/switches/s1/history", Verb::Read),
            (Method::GET, "/v1/status", Verb::ReadObjects),
            (Method::GET, "/v1/status/more", Verb::Read),
            (Method::GET, "/v1/diagnostics", Verb::Inspect),
            (Method::GET, "/v1/diagnostics/more", Verb::Inspect),
            (Method::GET, "/v1/listings", Verb::Describe),
            (Method::GET, "/v1/transactions/1", Verb::Read),
            (Method::GET, "/v1/network/tunnels", Verb::Read),
            (Method::GET, "/v1/schema/switch", Verb::Describe),
            (Method::GET, "/v1/", Verb::Read),
            (Method::GET, "/", Verb::Read),
            (Method::POST, "/v1/trace", Verb::Ask),
            (Method::POST, "/v1/explain", Verb::Read),
            (Method::POST, "/v1/why-not", Verb::Read),
            (Method::POST, "/v1/apply", Verb::ChangeObjects),
            (Method::PUT, "/v1/switches/s1", Verb::ChangeObjects),
            (Method::PATCH, "/v1/switches/s1", Verb::ChangeObjects),
            (Method::DELETE, "/v1/switches/s1", Verb::ChangeObjects),
            (Method::POST, "/v1/apply/more", Verb::Change),
            (Method::POST, "/v1/rules", Verb::Change),
            (Method::PUT, "/v1/rules/rollback", Verb::Change),
            (Method::POST, "/v1/rollback", Verb::Change),
            (Method::POST, "/v1/trace/more", Verb::Change),
            (Method::PUT, "/v1/switches", Verb::Change),
            (Method::DELETE, "/v1/switches/s1/flows", Verb::Change),
        ] {
            assert_eq!(of(method.clone(), path, false), verb, "{method} {path}");
        }
    }

    #[test]
    fn each_role_may_do_what_it_says() {
        const VERBS: [Verb; 7] = [
            Verb::ReadObjects,
            Verb::ChangeObjects,
            Verb::Describe,
            Verb::Ask,
            Verb::Read,
            Verb::Inspect,
            Verb::Change,
        ];
        let may = |role: Option<Role>| {
            let access = Access::Of(Identity { name: "a".to_owned(), role });
            VERBS.map(|verb| access.refusal(verb).is_none())
        };
        assert_eq!(may(Some(Role::Operator)), [true; 7]);
        assert_eq!(may(Some(Role::Viewer)), [true, false, true, true, true, false, false]);
        assert_eq!(may(Some(Role::Tenant("acme".to_owned()))), [true, true, true, true, false, false, false]);
        for none in [Some(Role::Node), Some(Role::Controller), None] {
            assert_eq!(may(none), [false; 7]);
        }
        assert_eq!(VERBS.map(|verb| Access::Open.refusal(verb).is_none()), [true; 7]);
        assert_eq!(VERBS.map(|verb| Access::Unknown.refusal(verb).is_none()), [false; 7]);
    }
}
