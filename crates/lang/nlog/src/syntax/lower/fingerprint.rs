//! The fingerprint of a rule.

use crate::syntax::{SyntaxKind as K, SyntaxNode};

/// FNV-1a over tokens without trivia, with a separator between them, finished by an avalanche so that it can be
/// truncated. Commas before a closing bracket are omitted because they are layout.
pub(super) struct Fingerprint(u64);

impl Fingerprint {
    pub(super) fn new() -> Self {
        Fingerprint(0xcbf2_9ce4_8422_2325)
    }

    pub(super) fn of(node: &SyntaxNode) -> Self {
        let mut fingerprint = Fingerprint::new();
        fingerprint.add_node(node);
        fingerprint
    }

    pub(super) fn add_node(&mut self, node: &SyntaxNode) {
        let mut comma = false;
        let all = node.descendants_with_tokens().filter_map(rowan::NodeOrToken::into_token);
        for token in all.filter(|token| !token.kind().is_trivia()) {
            let closing = matches!(token.kind(), K::RParen | K::RBracket | K::RBrace);
            if comma && !closing {
                self.add(b",\0");
            }
            comma = token.kind() == K::Comma;
            if !comma {
                self.add(token.text().as_bytes());
                self.add(&[0]);
            }
        }
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// The hash, never zero: zero is the cookie of flows that no rule derived.
    pub(super) fn finish(&self) -> u64 {
        // The 64-bit finaliser of MurmurHash3.
        let mut hash = self.0;
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        (hash ^ (hash >> 33)).max(1)
    }
}
