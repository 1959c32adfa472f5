#!/usr/bin/env python3
"""Makes testdata/golden/convert/modelcards.json: model cards, and the keys that the gguf package writes for them.

Needs the packages gguf and pyyaml. Each case is a README.md, the name of the folder it stands in, the number of weights, the keys
in order as [name, value], and the name of the output file without the type.
"""
import json
import pathlib
import tempfile

import gguf
from gguf.utility import naming_convention, size_label

OUT = pathlib.Path(__file__).resolve().parent.parent / "golden" / "convert" / "modelcards.json"

CASES = [
    ("none", "Tiny-12M", 12_000_000, None),
    ("no front matter", "Tiny-12M", 12_000_000, "# Tiny\n\n---\nlicense: mit\n---\n"),
    ("empty", "Tiny-12M", 12_000_000, ""),
    ("usual", "SmolThing-135M-Instruct", 134_515_008, """---
library_name: transformers
license: apache-2.0
language:
- en
base_model:
- ExampleOrg/SmolThing-135M
tags: [conversational, onnx]
pipeline_tag: text-generation
datasets:
- example/corpus
- example-two/other-corpus-v2
---

# SmolThing
license: not this one
"""),
    ("single values", "m", 1_500_000_000, "---\nlicense: other\nlicense_name: example-licence\nlicense_link: LICENSE.md\nlanguage: nl\nbase_model: meta-example/Big-7B-v1.2\ntags: merge\ndatasets: plain\n---\n"),
    ("names", "folder", 10_000, """---
model_name: Some Model 7B
model_creator: Some One
version: v3
organization: Example Labs
finetune: chatty
basename: somemodel
size_label: 7B
description: "Says: things, in 'several' ways"
url: https://example.org/model
doi: 10.1000/182
uuid: 00000000-0000-0000-0000-000000000001
repo_url: https://example.org/repo
---
"""),
    ("names with model_", "folder", 10_000, "---\nmodel_author: Me\nmodel_version: v1\nmodel_description: text\nmodel_url: https://example.org\n---\n"),
    ("addresses", "x-1B", 1_000_000_000, """---
base_model:
- https://huggingface.co/example/Base-1B-v2
- https://example.org/other/model
- just-a-name
- A Name With Spaces
- {name: By Fields, organization: Org, repo_url: 'https://example.org/x', version: v9}
dataset: https://huggingface.co/example/set
---
"""),
    ("unfinished", "y", 1000, "---\nlicense: mit\nlanguages: [de, fr]\nlanguage: [it]\n"),
    ("tabs and comments", "y", 1000, "---\n# a comment\nlicense: mit\ntags:\n-\tfirst\n-   second # another\n---\n"),
    ("crlf", "y", 1000, "---\r\nlicense: mit\r\ntags:\r\n- a\r\n---\r\n"),
    ("several licences", "y", 1000, "---\nlicense: [mit, apache-2.0]\n---\n"),
    ("nulls", "y", 1000, "---\nlicense:\ntags: []\nname: ~\n---\n"),
    ("folded", "y", 1000, "---\ndescription: >-\n  one\n  two\n---\n"),
]


class Recorder:
    """Takes the keys that Metadata writes."""

    def __init__(self):
        self.writer = gguf.GGUFWriter(path=None, arch="none")

    def keys(self, metadata):
        before = len(self.writer.kv_data[0])
        metadata.set_gguf_meta_model(self.writer)
        return [[k, v.value] for k, v in list(self.writer.kv_data[0].items())[before:]]


def main():
    cases = []
    for name, folder, params, readme in CASES:
        with tempfile.TemporaryDirectory() as tmp:
            path = pathlib.Path(tmp) / folder
            path.mkdir()
            if readme is not None:
                (path / "README.md").write_bytes(readme.encode())
            metadata = gguf.Metadata.load(None, path, None, params)
        if metadata.size_label is None:
            metadata.size_label = size_label(params, 0, 0, 0)
        output = naming_convention(metadata.name, metadata.basename, metadata.finetune, metadata.version, metadata.size_label, None)
        cases.append({"case": name, "folder": folder, "params": params, "readme": readme, "kv": Recorder().keys(metadata), "output": output})
    OUT.write_text(json.dumps(cases, indent=1, ensure_ascii=False) + "\n")


main()
