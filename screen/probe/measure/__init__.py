"""How anything is measured: replays, weights, leaves, determinism."""
