"""Copies the part of the quantization reference data that the tests of this package use.

    python3 subset.py REFERENCE/quant

Run it in this folder. It takes three classes of input (real weights, ties of the rounding, outliers) for each of TYPES.
"""
import json
import pathlib
import shutil
import sys

TYPES = "F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS".split()
CLASSES = "real ties outlier".split()
FIELDS = "type set cls mode rows cols quant dequant_sha256 ref cpu".split()


def main():
    source = pathlib.Path(sys.argv[1])
    manifest = json.loads((source / "manifest.json").read_text())

    def take(case, *keys):
        case = {k: case[k] for k in FIELDS if k in case}
        for key in keys:
            if key in case:
                case[key] = copy(case[key])
        return case

    def copy(name):
        short = pathlib.Path(name.replace("/A.", ".").replace("act/", "act.").replace("in/", "in.")).name
        shutil.copyfile(source / name, short)
        pathlib.Path(short).chmod(0o644)
        return short

    subset = {
        "source": manifest["source"],
        "inputs": {k: {"file": copy(v["file"])} for k, v in manifest["inputs"].items() if k.split(".")[1] in CLASSES},
        "imatrix": {k: {"file": copy(v["file"])} for k, v in manifest["imatrix"].items()},
        "cases": [take(c, "quant") for c in manifest["cases"]
                  if c["type"] in TYPES and c["cls"] in CLASSES
                  and not (c["type"] in ("F16", "BF16") and c["cls"] == "real")
                  and not (c["type"] == "Q8_0" and c["mode"] == "imx")],
        "activations": [take(c, "ref", "cpu") for c in manifest["activations"]
                        if c["type"] in ("Q8_0", "Q8_1") and c["cls"] == "ties"],
    }
    pathlib.Path("manifest.json").write_text(json.dumps(subset, indent=1) + "\n")


main()
