# SPDX-License-Identifier: Apache-2.0
"""The boundary: five places that a call walks through, in the order of their names.

``intake`` makes a proposal, ``policy`` decides, ``review`` asks a human, ``sandbox`` executes and
``seal`` attests and records. They never import each other; ``gate`` joins them.
"""
