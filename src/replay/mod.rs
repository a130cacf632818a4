//! Runs policies over recorded rows and keeps what the engine needs: a timeline.
