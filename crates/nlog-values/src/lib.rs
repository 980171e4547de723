//! What nlog rows hold: types, values, their canonical text and order, and the functions over them.
