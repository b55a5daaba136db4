"""Conformance: scripted exchanges that any OpenAI-compatible proxy can be held to.

    run_suite(Target(url=..., bearer=...), upstream_port=P) -> Report

The suite is a scripted upstream behind the proxy and a raw client before it; it knows the bridge only by what it
promises on the wire, and shares no code with it but the derivation of rollout bearers.
"""

from __future__ import annotations

from osmosis_bridge.conformance.case import Case, Fault
from osmosis_bridge.conformance.ledger_view import LedgerView
from osmosis_bridge.conformance.report import CaseResult, Report, compared, failed_list
from osmosis_bridge.conformance.run import Unreachable, run_suite, select
from osmosis_bridge.conformance.stage import Knobs, Target

__all__ = [
    "Case",
    "CaseResult",
    "Fault",
    "Knobs",
    "LedgerView",
    "Report",
    "Target",
    "Unreachable",
    "compared",
    "failed_list",
    "run_suite",
    "select",
]
