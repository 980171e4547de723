//! Query plans as timely and differential dataflow: rows, interning, transactions.
