# page.sh - the page in a real browser; after tap.sh.
#
#   need_browser                # or the test is skipped; in CI it fails
#   page live RUN-DIRECTORY     # web/test/live.mjs, with its results as ours
# SPDX-License-Identifier: Apache-2.0
CHROMIUM=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
export CHROMIUM

page_lacks() # WHY
{
    [ "${CI-}" != true ] || {
        tap_result 1 "$1; run tools/deps page and tools/page-packages"
        done_testing
    }
    skip_all "$1; 'make test-page' installs what is missing"
}

need_packages()
{
    command -v node >/dev/null || page_lacks "node is not installed"
    [ -d "$SOURCE/web/node_modules/esbuild" ] || page_lacks "the npm packages of web/ are not installed"
}

need_browser()
{
    need_packages
    [ -n "$CHROMIUM" ] || page_lacks "chromium is not installed"
    [ -d "$SOURCE/web/node_modules/playwright-core" ] || page_lacks "playwright-core is not installed"
}

# Its lines "ok NAME" and "not ok NAME" become results.
page() # SCRIPT ARGUMENT...
{
    page_script=$1 page_status=0
    shift
    timeout -k 5 110 node "$SOURCE/web/test/$page_script.mjs" "$@" >"$TAP/page.out" 2>"$TAP/page.err" || page_status=$?
    sed 's/^/# /' "$TAP/page.err" >&2
    rm -f "$TAP/out" "$TAP/err"
    while read -r page_word page_rest; do
        case $page_word in
        ok) tap_result 0 "$page_rest" ;;
        not) tap_result 1 "${page_rest#ok }" ;;
        '#') echo "# $page_rest" >&2 ;;
        esac
    done <"$TAP/page.out"
    [ $page_status = 0 ] || tap_result 1 "$page_script ends (status $page_status)"
}
