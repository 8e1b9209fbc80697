# guard.sh - what tests with several users need, beside tap.sh: two users, and the right to be them.
#
#   . "$SOURCE/test/guard/guard.sh"
#   as $ada cat "$TAP/secret"
#
# ada and bob are user ids that nobody has; nothing of theirs outlives the test.  Needs root: what is tested
# is what users can do to root and to each other.
# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

# Users of each test's own, so that tests can run side by side: what a user owns is found by its id.
ada=$((200000 + $$ % 100000 * 2)) bob=$((200001 + $$ % 100000 * 2))

as() # UID COMMAND...: with that user's rights alone, and a clean environment
{
    as_user=$1
    shift
    (cd / && exec setpriv --reuid="$as_user" --regid="$as_user" --clear-groups --no-new-privs \
        env -i PATH="$PATH" HOME=/nonexistent LOCKSTEP_CONFIG=/dev/null "$@")
}

[ "$(id -u)" = 0 ] || skip_all "tests with several users need root"
command -v setpriv >/dev/null || skip_all "no setpriv here"
chmod 711 "$TAP"
as $ada "$LOCKSTEP" version >/dev/null 2>&1 ||
    skip_all "another user cannot run the program from where it was built"
