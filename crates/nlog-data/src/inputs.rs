//! The contents of input tables, and which transactions they accept.
