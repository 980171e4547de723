//! What a port may send and receive.
