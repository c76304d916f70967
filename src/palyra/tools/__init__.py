# SPDX-License-Identifier: Apache-2.0
"""What can run: manifests, their schemas, and the facts they draw from arguments. Executes nothing.

A *manifest* says what a tool takes, gives and may do; the *catalogue* finds it by its exact name;
a *function tool* is a Python function whose manifest is read off its signature.
"""
