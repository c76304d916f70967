# SPDX-License-Identifier: Apache-2.0
"""Stage 5, attest: what was decided and what ran becomes a signed statement in the journal.

``attest`` makes and signs statements; ``scribe`` turns each step of a call into one transition;
``verify`` checks a whole journal, ``envelope`` one attestation, both without trusting the store.
"""
