//! Error messages: why a request was rejected.

use std::fmt;

use super::error_names;
use crate::DecodeError;
use crate::wire::Reader;

/// `OFPET_EXPERIMENTER`.
const EXPERIMENTER: u16 = 0xffff;

/// The code of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// An error of the OpenFlow standard.
    Standard {
        /// Type (`OFPET_*`).
        kind: u16,
        /// Code within the type.
        code: u16,
    },
    /// An error of an extension.
    Experimenter {
        /// The experimenter id.
        experimenter: u32,
        /// The error number within the extension.
        kind: u16,
    },
}

impl ErrorCode {
    /// `OFPBMC_BAD_PREREQ`: a match lacks what one of its fields needs.
    pub const BAD_PREREQ: ErrorCode = ErrorCode::Standard { kind: 4, code: 9 };
    /// `OFPBFC_MSG_FAILED`: a commit failed; another error names the message.
    pub const BUNDLE_MSG_FAILED: ErrorCode = ErrorCode::Standard { kind: 17, code: 13 };
    /// `OFPHFC_INCOMPATIBLE`: no version in common; the data is text.
    pub const INCOMPATIBLE: ErrorCode = ErrorCode::Standard { kind: 0, code: 0 };

    /// Open vSwitch's name for it, such as `OFPBMC_BAD_PREREQ`.
    pub fn name(self) -> Option<&'static str> {
        match self {
            ErrorCode::Standard { kind, code } => error_names::standard(kind, code),
            ErrorCode::Experimenter { experimenter: crate::action::NICIRA, kind } => {
                error_names::nicira(kind)
            }
            ErrorCode::Experimenter { .. } => None,
        }
    }

    /// Whether the data of such an error is text, not a message.
    pub(super) fn is_hello_failed(self) -> bool {
        matches!(self, ErrorCode::Standard { kind: 0, .. })
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), self) {
            (Some(name), _) => f.write_str(name),
            (None, ErrorCode::Standard { kind, code }) => write!(f, "error type {kind} code {code}"),
            (None, ErrorCode::Experimenter { experimenter, kind }) => {
                write!(f, "error {kind} of experimenter {experimenter:#x}")
            }
        }
    }
}

/// An error. Its transaction id is that of the rejected request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorMessage {
    /// The reason.
    pub code: ErrorCode,
    /// The beginning of the rejected message, or text if no version was negotiated.
    pub data: Vec<u8>,
}

impl ErrorMessage {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let (kind, code) = match self.code {
            ErrorCode::Standard { kind, code } => (kind, code),
            ErrorCode::Experimenter { kind, .. } => (EXPERIMENTER, kind),
        };
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&code.to_be_bytes());
        if let ErrorCode::Experimenter { experimenter, .. } = self.code {
            out.extend_from_slice(&experimenter.to_be_bytes());
        }
        out.extend_from_slice(&self.data);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<ErrorMessage, DecodeError> {
        let (kind, code) = (reader.u16()?, reader.u16()?);
        let code = if kind == EXPERIMENTER {
            ErrorCode::Experimenter { experimenter: reader.u32()?, kind: code }
        } else {
            ErrorCode::Standard { kind, code }
        };
        Ok(ErrorMessage { code, data: reader.rest().to_vec() })
    }
}
