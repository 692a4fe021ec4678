//! A Transformer engine that runs, trains and shows every kind of Transformer from one description.
