//! Typed nlog program to query plan.
