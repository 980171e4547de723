//! Transactions and deltas as JSON Lines.
