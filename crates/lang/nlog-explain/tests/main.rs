//! Explanations: of matches, in text, and what they cost. Random programs are compared with the oracle's own tests (`nlog-reference`).

mod printed;
mod questions;
mod text;
mod work;
