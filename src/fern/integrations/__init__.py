"""Other libraries: `fern.integrations.inward` brings their models under our contract.

Each is an optional extra, imported where it is used.
"""
