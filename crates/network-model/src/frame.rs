//! What is read from a frame's bytes.
