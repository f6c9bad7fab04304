"""Validates documents against a JSON schema: one line of output, '1' or '0' for each document.

usage: schema_verdicts.py schema.json documents, where `documents` has one document a line, each as
a JSON string that holds its text. Exit code 3: the jsonschema package is not there.
"""
import json
import sys

try:
    import jsonschema
except ImportError:
    sys.exit(3)

with open(sys.argv[1], encoding="utf-8") as f:
    schema = json.load(f)
jsonschema.Draft7Validator.check_schema(schema)
validator = jsonschema.Draft7Validator(schema)
with open(sys.argv[2], encoding="utf-8") as f:
    print("".join("1" if validator.is_valid(json.loads(json.loads(line))) else "0" for line in f))
