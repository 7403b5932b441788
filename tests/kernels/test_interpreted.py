"""The kernels' tests, on a CPU: Triton looks for its interpreter when it is first imported."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.kernels.dispatch import have_triton, interpreted, use_kernel

FEWEST = 30


@pytest.mark.skipif(interpreted(), reason="this is the other process")
@pytest.mark.skipif(not have_triton(), reason="triton is not installed (it is for Linux alone)")
@pytest.mark.slow
def test_kernels_are_what_their_plain_twins_are():
    here = str(Path(__file__).parent)
    plugins = ["-p", "no:randomly", "-p", "no:cacheprovider", "--hypothesis-profile", "ci"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, "--confcutdir", here, here]
    env = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    env = {name: value for name, value in env.items() if not name.startswith("PYTEST")}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= FEWEST, done.stdout


@pytest.mark.skipif(interpreted(), reason="there a CPU can run them")
def test_no_kernel_is_for_a_cpu():
    assert not use_kernel("varlen_attention", torch.zeros(1, dtype=torch.bfloat16))
