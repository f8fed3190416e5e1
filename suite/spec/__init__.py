"""Specs: what the YAML may say, the strict loader, names and identities. No torch."""
