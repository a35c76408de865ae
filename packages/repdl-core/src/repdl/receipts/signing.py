"""Signatures of receipts, by keys in PEM files: Ed25519, ECDSA or RSA, in the envelope of DSSE.

A signature is over the whole payload: program, contract, every step and the digest of the end. That of another receipt
does not fit. It says who vouches for the receipt; that its steps are true only an execution shows.

Source: https://github.com/secure-systems-lab/dsse/blob/master/protocol.md
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from repdl.errors import ReceiptError

PASSWORD = "REPDL_KEY_PASSWORD"
"""The environment variable that has the password of an encrypted private key."""


def _libraries() -> tuple[Any, Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from securesystemslib import dsse, signer
    except ImportError as error:
        raise ReceiptError('receipt: signatures need `pip install "repdl-core[signing]"`') from error
    return serialization, dsse, signer


def signer_of(path: str | os.PathLike[str]) -> Any:
    """A signer of securesystemslib by the private key of a PEM file.

    Raises:
        ReceiptError: if the file has none, or none that signs, or securesystemslib is missing.
    """
    serialization, _, signer = _libraries()
    password = os.environ.get(PASSWORD)
    try:
        key = serialization.load_pem_private_key(_bytes(path), password.encode() if password else None)
        return signer.CryptoSigner(key)
    except (TypeError, ValueError) as error:  # TypeError: a password that is missing, or that no key has
        raise ReceiptError(
            f"receipt: {path} is no private key in PEM that signs (Ed25519, ECDSA or RSA): {error}; the password of an "
            f"encrypted one is read from {PASSWORD}"
        ) from error


def public_key(path: str | os.PathLike[str]) -> Any:
    """A key of securesystemslib that verifies, of a PEM file.

    Raises:
        ReceiptError: if the file has none, or securesystemslib is missing.
    """
    serialization, _, signer = _libraries()
    try:
        return signer.SSlibKey.from_crypto(serialization.load_pem_public_key(_bytes(path)))
    except ValueError as error:
        raise ReceiptError(f"receipt: {path} is no public key in PEM: {error}") from error


def _bytes(path: str | os.PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ReceiptError(f"receipt: the key {path} can't be read: {error.strerror}") from error


def _envelope(path: str | os.PathLike[str]) -> Any:
    _, dsse, _ = _libraries()
    try:
        return dsse.Envelope.from_dict(json.loads(Path(path).read_text()))
    except OSError as error:
        raise ReceiptError(f"receipt: {path} can't be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReceiptError(f"receipt: {path} is no DSSE envelope: {type(error).__name__}: {error}") from error


def sign(path: str | os.PathLike[str], signer: Any) -> None:
    """Add a signature to a receipt; an earlier one by the same key is replaced.

    Args:
        path: the receipt.
        signer: of `signer_of`, or any other of securesystemslib.

    Raises:
        ReceiptError: if the file is no envelope, or can't be written.
    """
    envelope = _envelope(path)
    envelope.sign(signer)
    text = json.dumps(envelope.to_dict(), separators=(",", ":"), sort_keys=True) + "\n"
    try:
        Path(path).write_text(text)
    except OSError as error:
        raise ReceiptError(f"receipt: {path} can't be written: {error.strerror}") from error


def check_signed(path: str | os.PathLike[str], keys: Iterable[str | os.PathLike[str]]) -> None:
    """Raise unless each of the keys has signed a receipt.

    Args:
        path: the receipt.
        keys: PEM files of public keys.

    Raises:
        ReceiptError: for a key whose signature is missing or is not of this receipt, and for files that can't be read.
    """
    envelope = _envelope(path)
    from securesystemslib.exceptions import Error

    for key_path in keys:
        key = public_key(key_path)
        signature = envelope.signatures.get(key.keyid)
        if signature is None:
            raise ReceiptError(f"receipt: {path} has no signature by {key_path}, key {key.keyid[:12]}")
        try:
            key.verify_signature(signature, envelope.pae())
        except Error as error:
            raise ReceiptError(
                f"receipt: the signature by {key_path}, key {key.keyid[:12]}, is not of the receipt {path}: one of the "
                f"two is another one's, or was edited"
            ) from error


__all__ = ["PASSWORD", "check_signed", "public_key", "sign", "signer_of"]
