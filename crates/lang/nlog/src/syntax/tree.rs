//! The lossless tree: it contains every character of the file once, in order.

use super::SyntaxKind;

/// Ties the tree library to our kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NlogLanguage {}

impl rowan::Language for NlogLanguage {
    type Kind = SyntaxKind;

    fn kind_from_raw(raw: rowan::SyntaxKind) -> SyntaxKind {
        SyntaxKind::ALL.get(usize::from(raw.0)).copied().unwrap_or(SyntaxKind::Unknown)
    }

    fn kind_to_raw(kind: SyntaxKind) -> rowan::SyntaxKind {
        rowan::SyntaxKind(kind as u16)
    }
}

/// A node of the tree.
pub type SyntaxNode = rowan::SyntaxNode<NlogLanguage>;
/// A token of the tree.
pub type SyntaxToken = rowan::SyntaxToken<NlogLanguage>;
