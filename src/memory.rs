//! The HBM and DDR ledger of a deployment.
