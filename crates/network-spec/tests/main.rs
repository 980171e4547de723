//! What the specification says, sentence by sentence.

mod sentences;
