//! Who sends a request: whoever its token names, or else whoever its connection does.

use std::sync::Arc;
use std::time::SystemTime;

use mutual_tls::{Credentials, Strangers};
use tonic::Status;
use tonic::codegen::http::{HeaderMap, Request, header};

use crate::listener::Caller;
use crate::tokens::{Bearer, Tokens};

mod while_good;

pub(crate) use while_good::WhileGood;

/// How a token is sent, in any case.
const SCHEME: &str = "bearer ";

/// How callers show who they are.
#[derive(Clone, Default)]
pub(crate) struct Identification {
    /// Over TCP, TLS is spoken with these, if there are any.
    pub(crate) credentials: Option<Arc<Credentials>>,
    /// What requests may be sent with.
    pub(crate) tokens: Option<Arc<Tokens>>,
}

/// A request that may be made.
pub(crate) struct Admitted {
    pub(crate) caller: Caller,
    /// The token that it was sent with.
    pub(crate) lease: Option<Lease>,
}

/// A token, which may expire or be revoked.
#[derive(Debug)]
pub(crate) struct Lease {
    tokens: Arc<Tokens>,
    id: String,
}

impl Lease {
    /// Whether it is still good.
    fn is_good(&self) -> bool {
        self.tokens.is_good(&self.id, SystemTime::now())
    }
}

impl Identification {
    /// What becomes of a client without a certificate: it may have a token.
    pub(crate) fn strangers(&self) -> Strangers {
        if self.tokens.is_some() { Strangers::Admitted } else { Strangers::Refused }
    }

    /// The caller of a request on a connection, if it may make the request.
    pub(crate) fn admit<B>(&self, request: &Request<B>, connection: &Caller) -> Result<Admitted, Status> {
        let admitted = self.identify(request.headers(), connection)?;
        match admitted.caller.access.refuse(request) {
            None => Ok(admitted),
            Some(refused) => Err(refused),
        }
    }

    /// A token counts more than the connection on which it comes.
    fn identify(&self, headers: &HeaderMap, connection: &Caller) -> Result<Admitted, Status> {
        let caller = connection.clone();
        let Some(token) = token(headers)? else { return Ok(Admitted { caller, lease: None }) };
        let tokens = self.tokens.clone().ok_or_else(|| {
            Status::unauthenticated(
                "this controller knows no tokens; name their file with `tokens` in its configuration",
            )
        })?;
        let bearer = tokens.bearer(token, SystemTime::now());
        let Bearer { identity, id } = bearer.map_err(|why| Status::unauthenticated(why.to_string()))?;
        let caller = caller.known_as(&identity, format!("token {identity}"));
        Ok(Admitted { caller, lease: Some(Lease { tokens, id }) })
    }
}

/// The token that a request is sent with.
fn token(headers: &HeaderMap) -> Result<Option<&str>, Status> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let token = value.to_str().ok().and_then(|text| {
        let (scheme, token) = text.split_at_checked(SCHEME.len())?;
        scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim())
    });
    let unknown = || Status::unauthenticated("the header `authorization` is not `Bearer TOKEN`");
    token.map(Some).ok_or_else(unknown)
}
