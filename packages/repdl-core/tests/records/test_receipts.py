"""Receipts: an execution of the same program agrees, and whatever was changed is named by its step."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

import repdl
from repdl.cli import main
from repdl.errors import ArgumentError, ReceiptError
from repdl.receipts import Receipt, check_signed, read, receipt, sign, signer_of, verify
from repdl.receipts.statement import links, write
from repdl.testing import processes

STEPS, EVERY = 6, 2
needs_signing = pytest.mark.skipif(find_spec("securesystemslib") is None, reason="no securesystemslib")


def train(change: str = "", at: int = 3) -> None:
    """A model after some steps; `change` says what is otherwise in step `at`."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.25), torch.nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    data = torch.utils.data.TensorDataset(torch.randn(STEPS * 4, 6), torch.arange(STEPS * 4) % 3)
    order = [*range(STEPS * 4)]
    if change == "batch":
        order[4 * at], order[4 * at + 4] = order[4 * at + 4], order[4 * at]
    for i, (x, y) in enumerate(torch.utils.data.DataLoader(data, batch_size=4, sampler=order)):
        if i == at and change == "rate":
            optimizer.param_groups[0]["lr"] = 1.0001e-2
        if i == at and change == "bit":
            weight = model[0].weight.detach().view(torch.int32)
            weight[1, 2] ^= 1
        if i == at and change == "omitted":
            continue
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    if change == "last":
        with torch.no_grad():
            model[0].bias[0] = 1.0


def executed(change: str = "") -> Callable[[Receipt], None]:
    def execute(known: Receipt) -> None:
        with repdl.enabled(known.contract):
            train(change)

    return execute


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("receipts") / "run.json"
    with repdl.enabled(), receipt(path, EVERY, ["train.py"]):
        train()
    return path


def test_receipt__what_it_says(path) -> None:
    found = read(path)
    assert [step.step for step in found.steps] == [*range(STEPS)]
    assert [step.state is not None for step in found.steps] == [i % EVERY == EVERY - 1 for i in range(STEPS)]
    assert all(len(step.data) == 1 for step in found.steps) and len({step.data for step in found.steps}) == STEPS
    assert found.contract == "v1" and found.signatures == 0 and found.environment["torch"] == torch.__version__
    envelope = json.loads(path.read_text())
    assert envelope.keys() == {"payload", "payloadType", "signatures"}
    statement = json.loads(base64.b64decode(envelope["payload"]))
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["subject"][0]["digest"]["sha256"] == found.final
    assert statement["predicate"]["level"] == "re-executable: any machine"


@pytest.mark.parametrize("isa", [None, "baseline"])
def test_verify__every_step_agrees(path, isa) -> None:
    if isa is None:
        verdict = verify(path, executed())
    else:
        with pytest.importorskip("repdl_cpu").use_isa(isa):
            verdict = verify(path, executed())
    assert (verdict.status, verdict.steps, verdict.difference) == (0, STEPS, None)
    assert "unsigned" in verdict.lines()[0]


CHANGES = {
    "batch": (3, "step 3: the batches that were loaded before it"),
    "rate": (3, "step 3: a hyperparameter of the optimizer"),
    "bit": (3, "step 3: parameters or the optimizer's state after it"),
    "omitted": (3, "step 3: the batches that were loaded before it"),
    "last": (STEPS, "the parameters at the end, after the last step"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_verify__what_was_changed_is_named(change, path) -> None:
    steps, text = CHANGES[change]
    verdict = verify(path, executed(change))
    assert verdict.status == 1 and verdict.steps == steps and str(verdict.difference).startswith(text)


@pytest.mark.parametrize("change", CHANGES)
def test_verify__a_receipt_of_another_run(change, tmp_path: Path) -> None:
    """The same the other way round: the changed run has written the receipt."""
    with repdl.enabled(), receipt(tmp_path / "run.json", EVERY):
        train(change)
    assert verify(tmp_path / "run.json", executed()).status == 1


HYPERPARAMETERS = {
    "bool": (True, False),
    "int": (1, 2),
    "float": (0.1, 0.2),
    "str": ("a", "b"),
    "None": (None, 0.0),
    "tensor": (torch.tensor(0.1), torch.tensor(0.2)),
    "tuple": ((0.9, 0.999), (0.9, 0.99)),
    "list": ([0.9, 0.999], [0.9, 0.99]),
    "tuple of tensors": ((torch.tensor(0.9), 0.999), (torch.tensor(0.8), 0.999)),
}


@pytest.mark.parametrize("kind", HYPERPARAMETERS)
def test_receipt__a_hyperparameter_of_every_kind(kind: str, tmp_path: Path) -> None:
    found = []
    for value in HYPERPARAMETERS[kind]:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.5)
        optimizer.param_groups[0]["further"] = value
        with repdl.enabled(), receipt(tmp_path / "run.json", EVERY):
            optimizer.step()
        (step,) = read(tmp_path / "run.json").steps
        found.append(step.settings)
    assert found[0] != found[1]


def test_verify__some_steps(path) -> None:
    verdict = verify(path, executed("last"), 4)
    assert (verdict.status, verdict.steps) == (0, 4)
    assert verify(path, executed("batch"), 3).status == 0 and verify(path, executed("batch"), 4).status == 1


def test_verify__a_program_that_ends_itself_by_any_error(path) -> None:
    def guarded(known: Receipt) -> None:
        try:
            executed("batch")(known)
        except BaseException:
            raise SystemExit(1) from None

    assert str(verify(path, guarded).difference).startswith("step 3: the batches")

    def broken(known: Receipt) -> None:
        raise SystemExit(4)

    with pytest.raises(ReceiptError, match="the program ended with 4 after 0 steps"):
        verify(path, broken)


def test_verify__another_contract(path) -> None:
    def sequential(known: Receipt) -> None:
        with repdl.enabled("sequential"):
            train()

    assert str(verify(path, sequential).difference).startswith("step 1: parameters")


def edited(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    envelope = json.loads(path.read_text())
    statement = json.loads(base64.b64decode(envelope["payload"]))
    change(statement)
    envelope["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()
    path.write_text(json.dumps(envelope))


@pytest.mark.parametrize(
    "field", ["settings", "state", "data", "contract", "program", "every", "chain", "order", "less"]
)
def test_read__edited(field, path, tmp_path: Path) -> None:
    copy = tmp_path / "run.json"
    copy.write_text(path.read_text())

    def change(statement: dict[str, Any]) -> None:
        predicate = statement["predicate"]
        changes: dict[str, Callable[[], object]] = {
            "settings": lambda: predicate["steps"][2].update(settings="00"),
            "state": lambda: predicate["steps"][1].update(state=None),
            "data": lambda: predicate["steps"][0].update(data=[]),
            "contract": lambda: predicate.update(contract="sequential"),
            "program": lambda: predicate.update(program=["other.py"]),
            "every": lambda: predicate.update(every=3),
            "chain": lambda: predicate.update(chain="0" * 64),
            "order": lambda: predicate["steps"].reverse(),
            "less": lambda: predicate["steps"].pop(),
        }
        changes[field]()

    edited(copy, change)
    with pytest.raises(ReceiptError, match="was edited: its chain is not that of its steps"):
        read(copy)


def test_verify__a_chain_that_was_computed_anew(path, tmp_path: Path) -> None:
    """Whoever edits a step and the chain is found by the execution."""
    known = read(path)
    steps = [*known.steps[:3], replace(known.steps[3], data=("00",))]
    steps += known.steps[4:]
    chain = links(known.program, known.contract, known.every, steps)[-1]
    write(tmp_path / "run.json", Receipt(**{**vars(known), "steps": steps, "chain": chain}))
    verdict = verify(tmp_path / "run.json", executed())
    assert (verdict.steps, verdict.difference) == (3, "step 3: the batches that were loaded before it")
    final = Receipt(**{**vars(known), "final": "0" * 64})
    write(tmp_path / "run.json", final)
    assert str(verify(tmp_path / "run.json", executed()).difference).startswith("the parameters at the end")


DAMAGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a character that is none of base64": lambda e: e.update(payload="!" + e["payload"]),
    "a line's end": lambda e: e.update(payload=e["payload"][:40] + "\n" + e["payload"][40:]),
    "cut off": lambda e: e.update(payload=e["payload"][:-4]),
    "another type": lambda e: e.update(payloadType="application/json"),
    "no signatures": lambda e: e.pop("signatures"),
    "no payload": lambda e: e.pop("payload"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_read__a_damaged_envelope(damage: str, path: Path, tmp_path: Path) -> None:
    envelope = json.loads(path.read_text())
    DAMAGES[damage](envelope)
    (tmp_path / "run.json").write_text(json.dumps(envelope))
    with pytest.raises(ReceiptError, match="no receipt of this version"):
        read(tmp_path / "run.json")


ED25519, ECDSA, RSA = "ed25519", "ecdsa", "rsa"


def key_files(folder: Path, name: str, kind: str = ED25519, password: str = "") -> tuple[Path, Path]:
    """PEM files of a new private key, and of its public one."""
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    made = {
        ED25519: ed25519.Ed25519PrivateKey.generate,
        ECDSA: lambda: ec.generate_private_key(ec.SECP256R1()),
        RSA: lambda: rsa.generate_private_key(65537, 2048),
    }[kind]()
    hidden = s.BestAvailableEncryption(password.encode()) if password else s.NoEncryption()
    private, public = folder / f"{name}.pem", folder / f"{name}_public.pem"
    private.write_bytes(made.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, hidden))
    public.write_bytes(made.public_key().public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo))
    return private, public


@needs_signing
@pytest.mark.parametrize("kind", [ED25519, ECDSA, RSA])
def test_sign__is_checked_before_anything_is_executed(kind: str, path: Path, tmp_path: Path) -> None:
    (mine, public), (_, other) = key_files(tmp_path, "mine", kind), key_files(tmp_path, "other", kind)
    signed = tmp_path / "run.json"
    signed.write_bytes(path.read_bytes())
    sign(signed, signer_of(mine))
    assert read(signed) == replace(read(path), signatures=1)
    verdict = verify(signed, executed(), 1, [public])
    assert verdict.status == 0 and f"signed by {public}" in verdict.lines()[0]
    assert "1 signature that no --key was given for" in verify(signed, executed(), 1).lines()[0]

    def never(known: Receipt) -> None:
        raise AssertionError("executed")

    for refused, keys in ((path, [public]), (signed, [other]), (signed, [public, other])):
        with pytest.raises(ReceiptError, match="has no signature by"):
            verify(refused, never, keys=keys)


@needs_signing
def test_sign__a_signature_is_of_one_receipt(path: Path, tmp_path: Path) -> None:
    """Not of one with another program, step or end, even where the chain was computed anew."""
    private, public = key_files(tmp_path, "mine")
    signed, other = tmp_path / "run.json", tmp_path / "other.json"
    signed.write_bytes(path.read_bytes())
    sign(signed, signer_of(private))
    signatures = json.loads(signed.read_text())["signatures"]
    known = read(path)
    steps = [*known.steps]
    steps[2] = replace(steps[2], settings="0" * 64)
    changed = [replace(known, program=["other.py"]), replace(known, steps=steps), replace(known, final="0" * 64)]
    for one in changed:
        chain = links(one.program, one.contract, one.every, one.steps)[-1]
        write(other, replace(one, chain=chain))
        assert read(other).chain == chain
        other.write_text(json.dumps(json.loads(other.read_text()) | {"signatures": signatures}))
        with pytest.raises(ReceiptError, match="is not of the receipt"):
            check_signed(other, [public])
    check_signed(signed, [public])


@needs_signing
def test_sign__several_keys_and_again(path: Path, tmp_path: Path) -> None:
    (first, first_public), (second, second_public) = (key_files(tmp_path, name) for name in ("first", "second"))
    signed = tmp_path / "run.json"
    signed.write_bytes(path.read_bytes())
    for key in (first, second, first):
        sign(signed, signer_of(key))
    assert read(signed).signatures == 2
    check_signed(signed, [first_public, second_public])


@needs_signing
def test_sign__keys_that_do_not_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, public = key_files(tmp_path, "hidden", password="word")
    with pytest.raises(ReceiptError, match="REPDL_KEY_PASSWORD"):
        signer_of(hidden)
    monkeypatch.setenv("REPDL_KEY_PASSWORD", "other")
    with pytest.raises(ReceiptError, match="REPDL_KEY_PASSWORD"):
        signer_of(hidden)
    monkeypatch.setenv("REPDL_KEY_PASSWORD", "word")
    signer_of(hidden)
    with pytest.raises(ReceiptError, match="is no private key in PEM"):
        signer_of(public)
    with pytest.raises(ReceiptError, match="can't be read"):
        signer_of(tmp_path / "none.pem")
    with pytest.raises(ReceiptError, match="is no public key in PEM"):
        check_signed(_unsigned(tmp_path), [hidden])
    with (
        repdl.enabled(),
        pytest.raises(ReceiptError, match="is no private key"),
        receipt(tmp_path / "a.json", key=public),
    ):
        raise AssertionError("begun")


def _unsigned(folder: Path) -> Path:
    with repdl.enabled(), receipt(folder / "unsigned.json", EVERY):
        train()
    return folder / "unsigned.json"


def test_receipt__errors(tmp_path: Path) -> None:
    with pytest.raises(ReceiptError, match="expected `repdl.enable"), receipt(tmp_path / "a"):
        pass
    with repdl.enabled():
        with pytest.raises(ReceiptError, match="no optimizer has made a step"), receipt(tmp_path / "a"):
            pass
        with pytest.raises(ArgumentError, match="every is 0"), receipt(tmp_path / "a", 0):
            pass
        with pytest.raises(ReceiptError, match="can't be written"), receipt(tmp_path / "none" / "a"):
            train()
        with pytest.raises(SystemExit), receipt(tmp_path / "a"):
            train()
            raise SystemExit(3)
    assert [*tmp_path.iterdir()] == []
    (tmp_path / "text").write_text("{}")
    with pytest.raises(ReceiptError, match="no receipt of this version"):
        read(tmp_path / "text")
    with pytest.raises(ReceiptError, match="can't be read"):
        read(tmp_path / "none")


@pytest.fixture
def said(tmp_path: Path) -> Callable[..., str]:
    """What a command of `repdl` prints beside a program that trains; it must end with the status."""
    text = "import sys; sys.path.insert(0, {!r})\nimport helper, test_receipts as t\nsys.exit(t.train(*sys.argv[1:]))\n"
    (tmp_path / "helper.py").write_text("number = 1\n")
    (tmp_path / "program.py").write_text(text.format(str(Path(__file__).parent)))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

    def run(status: int, *command: str) -> str:
        done = processes.python("-m", "repdl", *command, cwd=tmp_path, environment=environment)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


@needs_signing
def test_sign__commands(said: Callable[..., str], tmp_path: Path) -> None:
    key_files(tmp_path, "mine")
    key_files(tmp_path, "other")
    said(0, "run", "--receipt", "run.json", "--sign", "mine.pem", "program.py")
    assert "signed by mine_public.pem" in said(0, "verify", "run.json", "--key", "mine_public.pem")
    assert "no signature by other_public.pem" in said(2, "verify", "run.json", "--key", "other_public.pem")


def test_receipt__commands(said: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(0, "run", "--receipt", "run.json", "--every", "3", "program.py", "rate")
    assert {"program.py", "helper.py"} <= read(tmp_path / "run.json").code.keys()
    assert "6 steps agree" in said(0, "verify", "run.json")
    (tmp_path / "helper.py").write_text("number = 2\n")
    assert "another file: helper.py" in said(1, "verify", "run.json", "--steps", "2")
    program = (tmp_path / "program.py").read_text()
    assert "import helper, " in program
    (tmp_path / "program.py").write_text(program.replace("import helper, ", "import "))
    assert "another file: helper.py" in said(1, "verify", "run.json", "--steps", "2")
    for option in ("--every", "--sign"):
        assert main(["run", option, "3", "program.py"]) == 2
        assert "expected --receipt beside it" in capsys.readouterr().err
    assert main(["verify", str(tmp_path / "none.json")]) == 2
    assert "can't be read" in capsys.readouterr().err
