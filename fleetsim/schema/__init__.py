"""Strict YAML, overrides, and messages about faults in a file.

- `strict_yaml`: a strict subset of YAML, read with the line of every value.
- `yaml_scalar`: values of unquoted scalars.
- `yaml_text`: plain data as YAML text.
- `overrides`: changes by `--set KEY.PATH=VALUE`, and the hash of data.
- `python_data`: documents and overrides given as Python values.
- `faults`: messages about faults in a file.
- `fault_location`: key and settings class that a pydantic error refers to.
- `spelling`: names that a misspelt word was meant to be.
- `ranges`: ranges of numbers.
- `distinct`: lists without repeated entries.
- `effects`: conditions under which a key can change a run.
"""
