# SPDX-License-Identifier: Apache-2.0
"""How the gate is reached from outside: translate, call the gate, translate back."""
