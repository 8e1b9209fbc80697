#!/bin/sh
# Every C file is laid out as .clang-format says; `make format` does it.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

clang-format --version 2>/dev/null | grep -q ' version 14' || skip_all "no clang-format 14 here"
ok "every C file is laid out as .clang-format says (make format)" "$SOURCE/tools/format" --check
done_testing
