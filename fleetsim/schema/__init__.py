"""Strict YAML, overrides, and messages about faults in a file.

- `strict_yaml`: A strict subset of YAML, read with the line of every value.
- `yaml_text`: Plain data as YAML that `fleetsim.schema.strict_yaml` reads back as equal data.
- `overrides`: Overrides of a document by `--set`, `--unset` or another file, without editing it.
- `python_data`: Documents and overrides that are given as Python values, not as text.
- `faults`: Messages about faults in a file, one line each: place, key, and what is allowed.
- `fault_location`: Key, settings class and limits that a pydantic error location refers to.
- `field_docstrings`: Descriptions of keys.
- `spelling`: Names that a misspelt word was most likely meant to be.
- `ranges`: Ranges of the numbers that scenarios and data files may hold.
- `distinct`: Lists without repeated entries.
- `key_conditions`: Conditions under which a key of a scenario can change a run.
- `explained_keys`: Keys of a JSON Schema with what explains them.
"""
