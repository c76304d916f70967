# SPDX-License-Identifier: Apache-2.0
"""The wiring: the home, the settings, and the objects built from them, once each."""
