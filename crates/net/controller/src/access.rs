//! What a caller may do: the one place where roles are compared with calls, before a call is read.

use mutual_tls::{Identity, Role};
use tonic::Status;
use tonic::codegen::http::{Method, Request};

use crate::problem::is_grpc;

/// What a call does, as far as roles tell it apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    /// It reads.
    Read,
    /// It may change the network or the rules.
    Change,
}

/// The calls of the API. A test holds that each has an entry here.
pub(crate) const CALLS: [(&str, Verb); 22] = [
    ("Apply", Verb::Change),
    ("Delete", Verb::Change),
    ("Set", Verb::Change),
    ("Get", Verb::Read),
    ("Watch", Verb::Read),
    ("ListFlows", Verb::Read),
    ("ListLogicalFlows", Verb::Read),
    ("ReadListing", Verb::Read),
    ("ListListings", Verb::Read),
    ("CountFlows", Verb::Read),
    ("ListTunnels", Verb::Read),
    ("Trace", Verb::Read),
    ("Explain", Verb::Read),
    ("WhyNot", Verb::Read),
    ("Status", Verb::Read),
    ("History", Verb::Read),
    ("Rollback", Verb::Change),
    ("LoadRules", Verb::Change),
    ("RollbackRules", Verb::Change),
    ("RulesHistory", Verb::Read),
    ("TakeSnapshot", Verb::Read),
    ("WatchReceipts", Verb::Read),
];

/// The service of these calls, and those that describe it or say that it serves.
const SERVICE: &str = "weft.v1.Controller";
const ABOUT: [&str; 3] = [
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
];
/// The paths of `POST` that only read: their parameters are in the body. A test compares them with the paths of HTTP.
pub(crate) const QUESTIONS: [&str; 3] = ["/v1/trace", "/v1/explain", "/v1/why-not"];

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
        let about = ABOUT.contains(&service).then_some(Verb::Read);
        return found.map(|(_, verb)| *verb).or(about).unwrap_or(Verb::Change);
    }
    match *request.method() {
        Method::GET | Method::HEAD | Method::OPTIONS => Verb::Read,
        Method::POST if QUESTIONS.contains(&path) => Verb::Read,
        _ => Verb::Change,
    }
}

impl Access {
    /// Why a request is refused.
    pub(crate) fn refuse<B>(&self, request: &Request<B>) -> Option<Status> {
        self.refusal(verb(request))
    }

    fn refusal(&self, verb: Verb) -> Option<Status> {
        let identity = match self {
            Access::Open => return None,
            Access::Unknown => {
                return Some(Status::unauthenticated(
                    "nobody may ask without a certificate or a token; show a certificate, or send `authorization: Bearer TOKEN`",
                ));
            }
            Access::Of(identity) => identity,
        };
        let why = match (&identity.role, verb) {
            (Some(Role::Operator), _) | (Some(Role::Viewer), Verb::Read) => return None,
            (Some(Role::Viewer), Verb::Change) => {
                format!("{identity} may read and not change anything; changes need the role operator")
            }
            (Some(Role::Node | Role::Controller) | None, _) => format!(
                "the certificate of {identity} gives no access to the API; it needs the role operator or viewer, as `weft pki client \
                 NAME --role ROLE` writes it"
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
        assert_eq!(of(Method::POST, "/weft.v1.Controller/Get", true), Verb::Read);
        assert_eq!(of(Method::POST, "/grpc.health.v1.Health/Check", true), Verb::Read);
        // The same path without gRPC is none.
        assert_eq!(of(Method::POST, "/weft.v1.Controller/Get", false), Verb::Change);
        assert_eq!(of(Method::GET, "/v1/switches", false), Verb::Read);
        assert_eq!(of(Method::POST, "/v1/trace", false), Verb::Read);
        for (method, path) in [
            (Method::POST, "/v1/apply"),
            (Method::POST, "/v1/rules"),
            (Method::POST, "/v1/trace/more"),
            (Method::PUT, "/v1/switches/s1"),
            (Method::PATCH, "/v1/switches/s1"),
            (Method::DELETE, "/v1/switches/s1"),
        ] {
            assert_eq!(of(method.clone(), path, false), Verb::Change, "{method} {path}");
        }
    }

    #[test]
    fn each_role_may_do_what_it_says() {
        let may = |role: Option<Role>| {
            let access = Access::Of(Identity { name: "a".to_owned(), role });
            [Verb::Read, Verb::Change].map(|verb| access.refusal(verb).is_none())
        };
        assert_eq!(may(Some(Role::Operator)), [true, true]);
        assert_eq!(may(Some(Role::Viewer)), [true, false]);
        for none in [Some(Role::Node), Some(Role::Controller), None] {
            assert_eq!(may(none), [false, false]);
        }
        assert_eq!([Verb::Read, Verb::Change].map(|verb| Access::Open.refusal(verb).is_none()), [true; 2]);
    }
}
