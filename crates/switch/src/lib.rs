//! One switch: connect, read what is there, push deltas, confirm.
