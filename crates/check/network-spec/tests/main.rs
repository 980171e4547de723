//! The specification, sentence by sentence.

mod sentences;
