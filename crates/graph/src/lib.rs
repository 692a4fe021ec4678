//! About forty coarse operations over packed rows, their gradients and their reference; passes over a graph.
