//! Inner loops over slices: scalar, AVX2 and AVX-512 in one lane order, equal to the bit.
